//! The three forms of a patch: a shallow merge, RFC 7396, RFC 6902. It touches the tree that it is given.

use std::slice;

use json_patch::jsonptr::PointerBuf;
use json_patch::{
    AddOperation, CopyOperation, MoveOperation, PatchErrorKind, PatchOperation, RemoveOperation,
    ReplaceOperation, TestOperation,
};
use serde_json::{Map, Value};

use crate::bounds::{JSON_DEPTH_MAX, PATCH_COPIED_BYTES_MAX, PATCH_OPERATIONS_MAX};
use crate::families::json::document::{self, Flaw};
use crate::families::json::merge::{merge_patch, merge_shallow};

/// The form of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Two objects merge their members, anything else replaces (`application/json`).
    Shallow,
    /// RFC 7396 (`application/merge-patch+json`).
    Merge,
    /// RFC 6902 (`application/json-patch+json`).
    Operations,
}

/// A parsed patch.
#[derive(Clone, Debug)]
pub enum Patch {
    /// See [`Form::Shallow`].
    Shallow(Value),
    /// See [`Form::Merge`].
    Merge(Value),
    /// See [`Form::Operations`].
    Operations(json_patch::Patch),
}

/// Why a patch does not apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchError {
    /// There is nothing to apply it to.
    Absent,
    /// A `test` failed.
    Test,
    /// The document has no such location; which.
    Unfit(String),
    /// The result would be too deep or too large.
    Flawed(Flaw),
}

impl Patch {
    /// Parses a patch.
    ///
    /// # Errors
    /// What is wrong with its text.
    pub fn read(form: Form, text: &[u8]) -> Result<Patch, Flaw> {
        let tree = document::parse(text)?;
        Ok(match form {
            Form::Shallow => Patch::Shallow(tree),
            Form::Merge => Patch::Merge(tree),
            Form::Operations => {
                let Value::Array(operations) = tree else {
                    return Err(Flaw::NotJson("a patch is an array of operations".to_owned()));
                };
                if operations.len() > PATCH_OPERATIONS_MAX {
                    let why = format!("a patch has at most {PATCH_OPERATIONS_MAX} operations");
                    return Err(Flaw::NotJson(why));
                }
                let read =
                    |(n, one)| operation(one).map_err(|why| Flaw::NotJson(format!("operation {n}: {why}")));
                let operations: Result<_, _> = operations.into_iter().enumerate().map(read).collect();
                Patch::Operations(json_patch::Patch(operations?))
            }
        })
    }

    /// Applies it to a document, or to none.
    ///
    /// # Errors
    /// Why it does not apply.
    pub fn apply(&self, before: Option<Value>) -> Result<Value, PatchError> {
        match self {
            Patch::Shallow(patch) => {
                let mut tree = before.unwrap_or(Value::Null);
                if !merge_shallow(&mut tree, patch.clone()) {
                    tree = patch.clone();
                }
                Ok(tree)
            }
            Patch::Merge(patch) => {
                let mut tree = before.unwrap_or(Value::Null);
                merge_patch(&mut tree, patch.clone());
                Ok(tree)
            }
            Patch::Operations(operations) => {
                let mut tree = before.ok_or(PatchError::Absent)?;
                // This function owns the tree, so a patch that fails midway needs no rollback.
                operate(&mut tree, &operations.0)?;
                Ok(tree)
            }
        }
    }
}

/// One operation. Unknown members are ignored, as the RFC requires. Not parsed by serde, which would interpret some member
/// names of the value.
fn operation(one: Value) -> Result<PatchOperation, String> {
    let Value::Object(mut members) = one else { return Err("it is no object".to_owned()) };
    let path = pointer(&members, "path")?;
    let from = |members: &Map<String, Value>| pointer(members, "from");
    let value = |members: &mut Map<String, Value>| {
        members.remove("value").ok_or_else(|| "it has no \"value\"".to_owned())
    };
    Ok(match members.get("op").and_then(Value::as_str) {
        Some("add") => PatchOperation::Add(AddOperation { path, value: value(&mut members)? }),
        Some("remove") => PatchOperation::Remove(RemoveOperation { path }),
        Some("replace") => PatchOperation::Replace(ReplaceOperation { path, value: value(&mut members)? }),
        Some("move") => PatchOperation::Move(MoveOperation { from: from(&members)?, path }),
        Some("copy") => PatchOperation::Copy(CopyOperation { from: from(&members)?, path }),
        Some("test") => PatchOperation::Test(TestOperation { path, value: value(&mut members)? }),
        _ => return Err("its \"op\" is add, remove, replace, move, copy or test".to_owned()),
    })
}

fn pointer(members: &Map<String, Value>, name: &str) -> Result<PointerBuf, String> {
    let text = members.get(name).and_then(Value::as_str);
    let text = text.ok_or_else(|| format!("its \"{name}\" is a JSON pointer"))?;
    PointerBuf::parse(text).map_err(|error| format!("its \"{name}\" is a JSON pointer: {error}"))
}

/// Applies the operations one by one. A few of them could double a document repeatedly, or nest it without end, so what each
/// adds is checked before it is applied.
fn operate(tree: &mut Value, operations: &[PatchOperation]) -> Result<(), PatchError> {
    let mut copied_bytes = 0;
    for (n, operation) in operations.iter().enumerate() {
        let added = match operation {
            PatchOperation::Add(add) => Some((&add.path, &add.value)),
            PatchOperation::Replace(replace) => Some((&replace.path, &replace.value)),
            PatchOperation::Move(one) => tree.pointer(one.from.as_str()).map(|value| (&one.path, value)),
            PatchOperation::Copy(copy) => {
                let value = tree.pointer(copy.from.as_str());
                copied_bytes += value.map_or(0, |value| value.to_string().len());
                value.map(|value| (&copy.path, value))
            }
            PatchOperation::Test(test) => {
                // Numbers are equal if they have the same value, however they are written.
                let found = tree.pointer(test.path.as_str());
                if !found.is_some_and(|found| document::equal(found, &test.value)) {
                    return Err(PatchError::Test);
                }
                continue;
            }
            PatchOperation::Remove(_) => None,
        };
        if copied_bytes > PATCH_COPIED_BYTES_MAX {
            return Err(PatchError::Flawed(Flaw::TooLong));
        }
        if let Some((path, value)) = added
            && !JSON_DEPTH_MAX
                .checked_sub(path.tokens().count())
                .is_some_and(|left| document::within(value, left))
        {
            return Err(PatchError::Flawed(Flaw::TooDeep));
        }
        json_patch::patch_unsafe(tree, slice::from_ref(operation)).map_err(|error| match error.kind {
            PatchErrorKind::TestFailed => PatchError::Test,
            kind => PatchError::Unfit(format!("operation {n}: {kind}")),
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patched(form: Form, before: Option<&str>, patch: &str) -> Result<String, PatchError> {
        let before = before.map(|text| document::parse(text.as_bytes()).unwrap());
        Patch::read(form, patch.as_bytes()).unwrap().apply(before).map(|tree| tree.to_string())
    }

    #[test]
    fn each_form_does_what_its_name_says() {
        for (form, before, patch, after) in [
            (
                Form::Shallow,
                Some(r#"{"a":{"b":1},"n":1.10}"#),
                r#"{"a":{"c":null}}"#,
                r#"{"a":{"c":null},"n":1.10}"#,
            ),
            (Form::Shallow, Some("[1]"), r#"{"a":1}"#, r#"{"a":1}"#),
            (Form::Shallow, Some(r#"{"a":1}"#), "7", "7"),
            (Form::Shallow, None, r#"{"a":null}"#, r#"{"a":null}"#),
            (Form::Merge, Some(r#"{"a":{"b":1,"c":2}}"#), r#"{"a":{"c":null}}"#, r#"{"a":{"b":1}}"#),
            (Form::Merge, None, r#"{"a":null,"b":1}"#, r#"{"b":1}"#),
            (
                Form::Operations,
                Some(r#"{"a":[1,2],"n":9007199254740993}"#),
                r#"[{"op":"test","path":"/n","value":9007199254740993},{"op":"remove","path":"/a/0"},{"op":"copy","from":"/a","path":"/b"}]"#,
                r#"{"a":[2],"n":9007199254740993,"b":[2]}"#,
            ),
        ] {
            assert_eq!(patched(form, before, patch), Ok(after.to_owned()), "{patch}");
        }
    }

    #[test]
    fn a_failed_patch_reports_why() {
        let test = r#"[{"op":"test","path":"/a","value":2}]"#;
        assert_eq!(patched(Form::Operations, Some(r#"{"a":1}"#), test), Err(PatchError::Test));
        assert_eq!(patched(Form::Operations, None, "[]"), Err(PatchError::Absent));
        let missing = patched(Form::Operations, Some("{}"), r#"[{"op":"remove","path":"/a"}]"#);
        assert!(matches!(missing, Err(PatchError::Unfit(why)) if why.starts_with("operation 0:")));
        let numbers = r#"[{"op":"test","path":"/a","value":1.0},{"op":"test","path":"/b","value":10}]"#;
        assert_eq!(
            patched(Form::Operations, Some(r#"{"a":1,"b":1e1}"#), numbers),
            Ok(r#"{"a":1,"b":1e+1}"#.to_owned())
        );
        for text in [
            "{}",
            "[1]",
            r#"[{"op":"fly","path":"/a"}]"#,
            r#"[{"op":"add","path":"a","value":1}]"#,
            r#"[{"op":"add","path":"/a"}]"#,
            r#"[{"op":"add","value":1}]"#,
            r#"[{"op":"move","path":"/a"}]"#,
            "x",
        ] {
            assert!(Patch::read(Form::Operations, text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn values_may_have_members_of_any_name() {
        for value in [
            r#"{"$serde_json::private::Number":"1"}"#,
            r#"{"$serde_json::private::RawValue":"[1]"}"#,
            r#"[{"$serde_json::private::Number":{"$serde_json::private::RawValue":"1"}}]"#,
        ] {
            let merged = format!(r#"{{"a":{value}}}"#);
            let added = format!(r#"[{{"op":"add","path":"/a","value":{value}}}]"#);
            for (form, patch) in
                [(Form::Shallow, &merged), (Form::Merge, &merged), (Form::Operations, &added)]
            {
                assert_eq!(patched(form, Some("{}"), patch), Ok(merged.clone()), "{form:?}");
            }
        }
    }

    #[test]
    fn a_patch_cannot_make_a_document_grow_without_end() {
        let double = vec![r#"{"op":"copy","from":"","path":"/a"}"#; 200].join(",");
        let grown = patched(Form::Operations, Some(r#"{"a":1}"#), &format!("[{double}]"));
        assert_eq!(grown, Err(PatchError::Flawed(Flaw::TooDeep)));
        let double = vec![r#"{"op":"copy","from":"/a","path":"/a/-"}"#; 200].join(",");
        let grown = patched(Form::Operations, Some(r#"{"a":["0123456789"]}"#), &format!("[{double}]"));
        assert_eq!(grown, Err(PatchError::Flawed(Flaw::TooLong)));
        let long = format!(r#"{{"a":"{}","b":[]}}"#, "x".repeat(1 << 20));
        let many = vec![r#"{"op":"copy","from":"/a","path":"/b/-"}"#; 200].join(",");
        let grown = patched(Form::Operations, Some(&long), &format!("[{many}]"));
        assert_eq!(grown, Err(PatchError::Flawed(Flaw::TooLong)));
        let deep = format!("{}1{}", "[".repeat(126), "]".repeat(126));
        let inner = "/0".repeat(126);
        let nest = format!(r#"[{{"op":"replace","path":"{inner}","value":[[1]]}}]"#);
        assert_eq!(patched(Form::Operations, Some(&deep), &nest), Err(PatchError::Flawed(Flaw::TooDeep)));
        let nest = format!(r#"[{{"op":"replace","path":"{inner}","value":[1]}}]"#);
        assert!(patched(Form::Operations, Some(&deep), &nest).is_ok());
    }
}
