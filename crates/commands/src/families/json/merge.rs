//! Merging one tree into another: RFC 7396, and its shallow form. It touches the tree that it is given.

use std::collections::HashSet;

use serde_json::{Map, Value};

/// Merges a patch as defined by RFC 7396: members of objects are merged, `null` deletes a member, anything else replaces.
pub fn merge_patch(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(members) = target else { return };
    let mut deleted = HashSet::new();
    for (name, value) in patch {
        if value.is_null() {
            deleted.insert(name);
        } else {
            merge_patch(members.entry(name).or_insert(Value::Null), value);
        }
    }
    // Deleted together: one by one, each would move all members behind it.
    if !deleted.is_empty() {
        members.retain(|name, _| !deleted.contains(name));
    }
}

/// Merges the members of a patch into an object without recursion: each replaces the old value, `null` too.
/// Returns whether both are objects; if not, nothing changed.
pub fn merge_shallow(target: &mut Value, patch: Value) -> bool {
    let (Value::Object(members), Value::Object(patch)) = (target, patch) else { return false };
    members.extend(patch);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::json::document::parse;

    #[test]
    fn the_examples_of_rfc_7396() {
        for (target, patch, merged) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
            (r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#),
            (r#"{"a":"foo"}"#, "null", "null"),
            (r#"{"a":"foo"}"#, r#""bar""#, r#""bar""#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
            (
                r#"{"a":1,"b":2,"c":null,"d":4}"#,
                r#"{"d":null,"e":5,"a":null,"x":null}"#,
                r#"{"b":2,"c":null,"e":5}"#,
            ),
            ("[1,2]", r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
            ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
        ] {
            let mut tree = parse(target.as_bytes()).unwrap();
            merge_patch(&mut tree, parse(patch.as_bytes()).unwrap());
            assert_eq!(tree.to_string(), merged, "{target} {patch}");
        }
    }

    #[test]
    fn a_shallow_merge_does_not_recurse() {
        let mut tree = parse(br#"{"a":{"b":1},"c":2}"#).unwrap();
        assert!(merge_shallow(&mut tree, parse(br#"{"a":{"d":null},"e":null}"#).unwrap()));
        assert_eq!(tree.to_string(), r#"{"a":{"d":null},"c":2,"e":null}"#);
        assert!(!merge_shallow(&mut tree, parse(b"[1]").unwrap()));
    }
}
