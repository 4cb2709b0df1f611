//! `GET /openapi.json`: all requests and responses of every route, as OpenAPI 3.1. Pure.
//!
//! | To find                             | open                           |
//! |-------------------------------------|--------------------------------|
//! | the document, and the API groups    | here                           |
//! | what the routes share               | `common`                       |
//! | short builders of its parts         | `part`                         |
//! | the description of a route          | `openapi`, beside its handler  |
//!
//! It is made from the table of routes: a row names the function that describes it, or does not compile. Names and bounds are
//! the constants that handlers use.

pub(super) mod common;
pub(super) mod part;

use std::collections::HashSet;
use std::sync::LazyLock;

use hyper::{Method, StatusCode};
use utoipa::openapi::path::{HttpMethod, Operation, OperationBuilder, PathItem, PathsBuilder};
use utoipa::openapi::schema::ComponentsBuilder;
use utoipa::openapi::{InfoBuilder, License, OpenApi, OpenApiBuilder, ServerBuilder, tag::TagBuilder};

use super::context::HttpContext;
use super::reply::{self, Reply};
use super::request::HttpRequest;
use super::routes::{ROUTES, Route};
use super::{kv, limit, sinks, sync, upstash};
use crate::VERSION;
use part::{Description, Shape};

/// The tag of the routes of the server itself.
pub(super) const SERVER: &str = "server";

/// The routes of one API.
struct ApiGroup {
    tag: &'static str,
    about: &'static str,
    /// The schemas that their descriptions refer to.
    schemas: fn() -> Vec<(&'static str, Shape)>,
}

const API_GROUPS: &[ApiGroup] = &[
    ApiGroup { tag: SERVER, about: "Health, metrics, backups.", schemas: common::schemas },
    ApiGroup { tag: kv::openapi::TAG, about: "JSON documents with versions.", schemas: kv::openapi::schemas },
    ApiGroup {
        tag: sync::openapi::TAG,
        about: "Offline clients: their edits, and the changes since their last visit.",
        schemas: sync::openapi::schemas,
    },
    ApiGroup { tag: limit::openapi::TAG, about: "Rate limits.", schemas: limit::openapi::schemas },
    ApiGroup { tag: sinks::TAG, about: "Write-behind to other databases.", schemas: sinks::schemas },
    ApiGroup {
        tag: upstash::openapi::TAG,
        about: "Redis commands over HTTP, compatible with Upstash.",
        schemas: upstash::openapi::schemas,
    },
];

const ABOUT: &str = "A durable server for keyed state: every key has one writer at a time, every change is one atomic step, and a write \
is acknowledged only once it is durable.

`HEAD` works wherever `GET` does, and `OPTIONS` for the APIs that pages in browsers use (CORS). Any other method is `405`, with \
`Allow`. A response to a page has the headers of CORS.";

/// It needs no token: the document is in the source, and contains no data and no settings.
pub(super) async fn openapi(_: &HttpContext, _: &HttpRequest) -> Reply {
    reply::json(StatusCode::OK, &*TEXT)
}

pub(super) fn describe() -> OperationBuilder {
    let document = part::members([("openapi", part::matching(r"^3\.1\.").into())]);
    part::operation(SERVER, "openapi", "This document").response("200", part::json("OpenAPI 3.1.", document))
}

/// The description of a row that is only an error.
pub(super) fn hidden() -> Description {
    Description::default()
}

static TEXT: LazyLock<String> = LazyLock::new(|| {
    document().to_json().unwrap_or_else(|error| serde_json::json!({ "error": error.to_string() }).to_string())
});

fn document() -> OpenApi {
    let (mut paths, mut ids) = (PathsBuilder::new(), HashSet::new());
    for route in ROUTES {
        for method in route.methods {
            for (path, operation) in operations(route, method, &mut ids) {
                paths = paths.path(path, PathItem::new(openapi_method(method), operation));
            }
        }
    }
    let components = API_GROUPS
        .iter()
        .flat_map(|group| (group.schemas)())
        .fold(ComponentsBuilder::new(), |components, (name, schema)| components.schema(name, schema));
    let components = common::responses()
        .into_iter()
        .fold(components, |components, (_, name, response)| components.response(name, response));
    let components = common::security_schemes()
        .into_iter()
        .fold(components, |components, (name, scheme)| components.security_scheme(name, scheme));
    let mut license = License::new("MIT OR Apache-2.0");
    license.identifier = Some("MIT OR Apache-2.0".to_owned());
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("Keystead")
                .version(VERSION)
                .description(Some(ABOUT))
                .license(Some(license))
                .build(),
        )
        // Relative to where the document was fetched from.
        .servers(Some([ServerBuilder::new().url("/").build()]))
        .tags(Some(
            API_GROUPS
                .iter()
                .map(|group| TagBuilder::new().name(group.tag).description(Some(group.about)).build()),
        ))
        .paths(paths)
        .components(Some(components.build()))
        .build()
}

/// The operations of a row for one of its methods, with their paths. Every operation has an id of its own, also where several
/// methods do the same.
fn operations(route: &Route, method: &Method, ids: &mut HashSet<String>) -> Vec<(String, Operation)> {
    let Description(all) = (route.description)();
    let complete = |(path, operation): (Option<&'static str>, OperationBuilder)| {
        let mut operation = operation.build();
        common::complete(&mut operation, route.access);
        if let Some(id) = &mut operation.operation_id
            && !ids.insert(id.clone())
        {
            let lower = method.as_str().to_ascii_lowercase();
            let (initial, rest) = lower.split_at(1);
            *id = format!("{id}By{}{rest}", initial.to_ascii_uppercase());
        }
        // OpenAPI has no mark for a parameter that takes the rest of a path.
        (path.unwrap_or(route.path).replace("...}", "}"), operation)
    };
    all.into_iter().map(complete).collect()
}

fn openapi_method(method: &Method) -> HttpMethod {
    match method.as_str() {
        "PUT" => HttpMethod::Put,
        "POST" => HttpMethod::Post,
        "PATCH" => HttpMethod::Patch,
        "DELETE" => HttpMethod::Delete,
        "OPTIONS" => HttpMethod::Options,
        "HEAD" => HttpMethod::Head,
        "TRACE" => HttpMethod::Trace,
        _ => HttpMethod::Get,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::routes::Match;
    use super::*;

    fn parsed() -> Value {
        serde_json::from_str(&TEXT).unwrap()
    }

    /// Every method of every path, and its operation.
    fn all(document: &Value) -> Vec<(String, Method, &Value)> {
        let paths = document["paths"].as_object().unwrap().iter();
        paths
            .flat_map(|(path, item)| {
                item.as_object().unwrap().iter().map(move |(method, operation)| {
                    (path.clone(), method.to_uppercase().parse().unwrap(), operation)
                })
            })
            .collect()
    }

    /// A path that the template matches.
    fn example(template: &str) -> String {
        template
            .split('/')
            .map(|part| if part.starts_with('{') { "x" } else { part })
            .collect::<Vec<_>>()
            .join("/")
    }

    #[test]
    fn every_row_is_described_and_nothing_else_is() {
        let document = parsed();
        let mut described = HashSet::new();
        for (path, method, _) in all(&document) {
            match Match::find(&method, &example(&path)) {
                Match::Route(route) => described.insert((method.clone(), route.path)),
                Match::WrongMethod(route) => {
                    panic!("{method} {path} is described, but {} does not take it", route.path)
                }
            };
        }
        for route in ROUTES {
            let is_hidden = (route.description)().0.is_empty();
            for method in route.methods {
                let is_described = described.contains(&(method.clone(), route.path));
                assert_ne!(is_described, is_hidden, "{method} {}", route.path);
            }
        }
    }

    #[test]
    fn every_reference_tag_and_schema_is_there_and_used() {
        let document = parsed();
        let text = document.to_string();
        let named: HashSet<String> = text
            .split(r##""$ref":"#/"##)
            .skip(1)
            .map(|rest| format!("/{}", rest.split('"').next().unwrap()))
            .collect();
        let there = ["schemas", "responses"].into_iter().flat_map(|kind| {
            let parts = document["components"][kind].as_object().unwrap().keys();
            parts.map(move |name| format!("/components/{kind}/{name}"))
        });
        assert_eq!(named, there.collect());
        let tags: HashSet<&str> = API_GROUPS.iter().map(|group| group.tag).collect();
        let used: HashSet<&str> =
            all(&document).iter().map(|(_, _, o)| o["tags"][0].as_str().unwrap()).collect();
        assert_eq!(tags, used);
    }

    #[test]
    fn every_operation_has_an_id_a_summary_and_described_parameters() {
        let document = parsed();
        let mut ids = HashSet::new();
        for (path, method, operation) in all(&document) {
            assert!(
                ids.insert(operation["operationId"].as_str().unwrap()),
                "{method} {path}: its id is taken"
            );
            assert!(operation["summary"].is_string(), "{method} {path}");
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let about = parameter["description"].as_str().unwrap_or_default();
                assert!(!about.is_empty(), "{method} {path}: no description of {}", parameter["name"]);
            }
            for named in path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')) {
                let mut parameters = operation["parameters"].as_array().unwrap().iter();
                assert!(
                    parameters.any(|p| p["name"] == named && p["in"] == "path"),
                    "{method} {path}: {named}"
                );
            }
            let responses = operation["responses"].as_object().unwrap();
            assert!(
                responses.contains_key("413") && responses.keys().any(|status| status.starts_with('2')),
                "{path}"
            );
        }
    }

    #[test]
    fn the_document_has_its_version() {
        let document = parsed();
        assert_eq!(
            (document["openapi"].as_str(), document["info"]["version"].as_str()),
            (Some("3.1.0"), Some(VERSION))
        );
        assert_eq!(document["servers"][0]["url"], "/");
    }
}
