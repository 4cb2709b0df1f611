//! Short builders of the parts of the document, on top of `utoipa`. Pure.

use serde_json::Value;
use utoipa::openapi::content::{Content, ContentBuilder};
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::path::{OperationBuilder, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::{
    AdditionalProperties, AllOfBuilder, AnyOfBuilder, ArrayBuilder, ObjectBuilder, OneOfBuilder, SchemaType,
    Type,
};
use utoipa::openapi::{Ref, RefOr, Required, Schema};

/// A schema, or the name of one.
pub(in crate::http) type Shape = RefOr<Schema>;

/// The usual media type.
pub(in crate::http) const JSON: &str = "application/json";

/// What one row adds to the document: operations, each with its path if that is not the row's own.
#[derive(Default)]
pub(in crate::http) struct Description(pub(super) Vec<(Option<&'static str>, OperationBuilder)>);

/// Operations of a row that has several paths in the document.
pub(in crate::http) type Templates = Vec<(&'static str, OperationBuilder)>;

impl From<OperationBuilder> for Description {
    fn from(operation: OperationBuilder) -> Self {
        Description(vec![(None, operation)])
    }
}

impl From<Templates> for Description {
    fn from(templates: Templates) -> Self {
        Description(templates.into_iter().map(|(path, operation)| (Some(path), operation)).collect())
    }
}

/// An operation: its tag, its id for generated clients, and its summary.
pub(in crate::http) fn operation(tag: &str, id: &str, summary: &str) -> OperationBuilder {
    OperationBuilder::new().tag(tag).operation_id(Some(id)).summary(Some(summary))
}

/// The schema of this name.
pub(in crate::http) fn named(name: &str) -> Shape {
    Ref::from_schema_name(name).into()
}

/// Anything at all.
pub(in crate::http) fn anything() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(SchemaType::AnyValue)
}

/// Null.
pub(in crate::http) fn null() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Null)
}

/// A string.
pub(in crate::http) fn string() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

/// A string that matches a pattern.
pub(in crate::http) fn matching(pattern: &str) -> ObjectBuilder {
    string().pattern(Some(pattern))
}

/// True or false.
pub(in crate::http) fn boolean() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Boolean)
}

/// True, for a member that is left out otherwise.
pub(in crate::http) fn fixed_true() -> ObjectBuilder {
    boolean().enum_values(Some([true]))
}

/// A whole number, also below 0.
pub(in crate::http) fn integer() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Integer)
}

/// One of these strings.
pub(in crate::http) fn one_of(words: &[&str]) -> ObjectBuilder {
    string().enum_values(Some(words.iter().copied()))
}

/// A whole number of at least `least`.
pub(in crate::http) fn at_least(least: u64) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(least as usize))
}

/// A whole number from `least` to `most`.
pub(in crate::http) fn between(least: u64, most: u64) -> ObjectBuilder {
    at_least(least).maximum(Some(most as usize))
}

/// A whole number of 64 bits.
pub(in crate::http) fn counter(least: u64) -> ObjectBuilder {
    between(least, u64::MAX)
}

/// An object without other members.
pub(in crate::http) fn closed() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Object).additional_properties(Some(closing()))
}

fn closing() -> AdditionalProperties<Schema> {
    AdditionalProperties::FreeForm(false)
}

/// An object that must have these members, and may have others.
pub(in crate::http) fn members<const N: usize>(members: [(&str, Shape); N]) -> ObjectBuilder {
    required(ObjectBuilder::new().schema_type(Type::Object), members)
}

/// Adds required members.
pub(in crate::http) fn required<const N: usize>(
    mut object: ObjectBuilder,
    members: [(&str, Shape); N],
) -> ObjectBuilder {
    for (name, shape) in members {
        object = object.property(name, shape).required(name);
    }
    object
}

/// A list.
pub(in crate::http) fn list(item: impl Into<Shape>) -> ArrayBuilder {
    ArrayBuilder::new().items(item.into())
}

/// Any of these.
pub(in crate::http) fn any_of<const N: usize>(shapes: [Shape; N]) -> Shape {
    RefOr::T(shapes.into_iter().fold(AnyOfBuilder::new(), AnyOfBuilder::item).into())
}

/// Exactly one of these.
pub(in crate::http) fn either<const N: usize>(shapes: [Shape; N]) -> Shape {
    RefOr::T(shapes.into_iter().fold(OneOfBuilder::new(), OneOfBuilder::item).into())
}

/// All of these.
pub(in crate::http) fn all_of<const N: usize>(shapes: [Shape; N]) -> Shape {
    RefOr::T(shapes.into_iter().fold(AllOfBuilder::new(), AllOfBuilder::item).into())
}

/// A parameter of the path.
pub(in crate::http) fn in_path(name: &str, about: &str, shape: impl Into<Shape>) -> Parameter {
    parameter(ParameterIn::Path, name, about, shape.into()).required(Required::True).build()
}

/// A parameter of the query.
pub(in crate::http) fn in_query(name: &str, about: &str, shape: impl Into<Shape>) -> Parameter {
    parameter(ParameterIn::Query, name, about, shape.into()).build()
}

/// A header of the request.
pub(in crate::http) fn in_header(name: &str, about: &str, shape: impl Into<Shape>) -> Parameter {
    parameter(ParameterIn::Header, name, about, shape.into()).build()
}

fn parameter(place: ParameterIn, name: &str, about: &str, shape: Shape) -> ParameterBuilder {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(place)
        .required(Required::False)
        .description(Some(about))
        .schema(Some(shape))
}

/// The content of a body.
pub(in crate::http) fn content(shape: impl Into<Shape>) -> Content {
    ContentBuilder::new().schema(Some(shape)).build()
}

/// The same with an example.
pub(in crate::http) fn content_like(shape: impl Into<Shape>, example: Value) -> Content {
    ContentBuilder::new().schema(Some(shape)).example(Some(example)).build()
}

/// A required body, of one of these types.
pub(in crate::http) fn body<const N: usize>(about: &str, forms: [(&str, Content); N]) -> RequestBody {
    optional_body(about, forms, Required::True)
}

/// An optional body.
pub(in crate::http) fn optional_body<const N: usize>(
    about: &str,
    forms: [(&str, Content); N],
    is_required: Required,
) -> RequestBody {
    let body = RequestBodyBuilder::new().description(Some(about)).required(Some(is_required));
    forms.into_iter().fold(body, |body, (media, content)| body.content(media, content)).build()
}

/// A response without a body.
pub(in crate::http) fn response(about: &str) -> ResponseBuilder {
    ResponseBuilder::new().description(about)
}

/// A JSON response.
pub(in crate::http) fn json(about: &str, shape: impl Into<Shape>) -> ResponseBuilder {
    response(about).content(JSON, content(shape))
}

/// A header that a response may have.
pub(in crate::http) fn header(about: &str, shape: impl Into<Shape>) -> Header {
    HeaderBuilder::new().schema(Some(shape)).description(Some(about)).build()
}

/// A header that a response always has.
pub(in crate::http) fn fixed_header(about: &str, shape: impl Into<Shape>) -> Header {
    // A member of OpenAPI that the builder does not support.
    let is_required = Extensions::from_iter([("required", true)]);
    HeaderBuilder::new().schema(Some(shape)).description(Some(about)).extensions(Some(is_required)).build()
}

/// A response of many operations: its status, its name in the document, and its description.
pub(in crate::http) type Common = (&'static str, &'static str, Response);

/// Adds responses by their names.
pub(in crate::http) fn with(operation: OperationBuilder, responses: &[Common]) -> OperationBuilder {
    responses.iter().fold(operation, |operation, (status, name, _)| {
        operation.response(*status, Ref::from_response_name(*name))
    })
}

/// One event of a stream, as `EventSource` delivers it: OpenAPI 3.1 cannot describe streams, so this is the schema of each event.
pub(in crate::http) fn event(data: ObjectBuilder, kinds: &[&str]) -> ObjectBuilder {
    members([("data", data.into()), ("event", one_of(kinds).into())])
        .property("id", string())
        .description(Some("Each event of the stream."))
}
