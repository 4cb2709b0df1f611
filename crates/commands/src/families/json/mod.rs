//! JSON documents: the table of this family, and the trees, paths and merging that other APIs use, too.
//!
//! | To find                                   | open                     |
//! |-------------------------------------------|--------------------------|
//! | text to tree and back, the stored form    | [`document`], `tree`     |
//! | paths, what they select                   | [`path`]                 |
//! | locations in a tree, and changes there    | [`location`]             |
//! | RFC 7396 and shallow merging              | [`merge`]                |
//! | formatted text                            | [`mod@print`]            |
//! | a command                                 | its file                 |

mod array;
mod debug;
mod del;
pub mod document;
mod edit;
mod get;
pub mod location;
pub mod merge;
mod number;
pub mod path;
pub mod print;
#[cfg(test)]
mod property;
mod read;
mod set;
mod strappend;
#[cfg(test)]
pub(crate) mod testing;
mod toggle;
mod tree;

use crate::keys_of::Keys;
use crate::spec::Spec;
use crate::spec::flag::{READ, WHOLE, WRITE, WRITE_OOM, and};

const GET_SYNTAX: &str = "key [INDENT indent] [NEWLINE newline] [SPACE space] [path [path ...]]";

pub(crate) const TABLE: &[Spec] =
    &[
        Spec::data("json.arrappend", -4, WRITE_OOM, Keys::At(1), array::json_arrappend)
            .doc("key path json [json ...]", "Appends JSON values to the arrays at a path and returns their new lengths.", "1.0.0"),
        Spec::data("json.arrindex", -4, READ, Keys::At(1), array::json_arrindex).doc(
            "key path json [start [stop]]",
            "Returns the index of the first occurrence of a JSON value in the arrays at a path.",
            "1.0.0",
        ),
        Spec::data("json.arrinsert", -5, WRITE_OOM, Keys::At(1), array::json_arrinsert)
            .doc(
                "key path index json [json ...]",
                "Inserts JSON values into the arrays at a path before an index and returns their new lengths.",
                "1.0.0",
            ),
        Spec::data("json.arrlen", -2, READ, Keys::At(1), read::json_arrlen).doc(
            "key [path]",
            "Returns the lengths of the arrays at a path.",
            "1.0.0",
        ),
        Spec::data("json.arrpop", -2, WRITE, Keys::At(1), array::json_arrpop).doc(
            "key [path [index]]",
            "Removes and returns an element of the arrays at a path.",
            "1.0.0",
        ),
        Spec::data("json.arrtrim", 5, WRITE, Keys::At(1), array::json_arrtrim).doc(
            "key path start stop",
            "Trims the arrays at a path to an inclusive range of indices and returns their new lengths.",
            "1.0.0",
        ),
        Spec::data("json.clear", -2, WRITE, Keys::At(1), toggle::json_clear).doc(
            "key [path]",
            "Empties the arrays and objects at a path, sets the numbers to 0, and returns how many values changed.",
            "2.0.0",
        ),
        Spec::within("json.debug", debug::TABLE).doc("", "A container for JSON debugging commands.", "1.0.0"),
        Spec::data("json.del", -2, WRITE, Keys::At(1), del::json_del).doc(
            "key [path]",
            "Deletes the values at a path and returns how many were deleted.",
            "1.0.0",
        ),
        Spec::data("json.forget", -2, WRITE, Keys::At(1), del::json_del).doc(
            "key [path]",
            "Deletes the values at a path and returns how many were deleted. Alias of JSON.DEL.",
            "1.0.0",
        ),
        Spec::data("json.get", -2, READ, Keys::At(1), get::json_get).doc(
            GET_SYNTAX,
            "Returns the values at one or more paths as JSON text.",
            "1.0.0",
        ),
        Spec::data("json.merge", -4, WRITE_OOM, Keys::At(1), set::json_merge).doc(
            "key path json [FORMAT <STRING | JSON>]",
            "Merges a JSON value into the values at a path as defined by RFC 7396.",
            "2.6.0",
        ),
        Spec::data("json.mget", -3, and(READ, WHOLE), Keys::Until(1, 1), get::json_mget).doc(
            "key [key ...] path",
            "Returns the values at a path of one or more keys as JSON text.",
            "1.0.0",
        ),
        Spec::data("json.mset", -4, and(WRITE_OOM, WHOLE), Keys::Every(1, 3), set::json_mset)
            .doc(
                "key path json [key path json ...]",
                "Sets JSON values at paths of one or more keys atomically.",
                "2.6.0",
            ),
        Spec::data("json.numincrby", 4, WRITE_OOM, Keys::At(1), number::json_numincrby)
            .doc("key path value", "Increments the numbers at a path by a number.", "1.0.0"),
        Spec::data("json.nummultby", 4, WRITE_OOM, Keys::At(1), number::json_nummultby)
            .doc("key path value", "Multiplies the numbers at a path by a number.", "1.0.0"),
        Spec::data("json.objkeys", -2, READ, Keys::At(1), read::json_objkeys).doc(
            "key [path]",
            "Returns the member names of the objects at a path.",
            "1.0.0",
        ),
        Spec::data("json.objlen", -2, READ, Keys::At(1), read::json_objlen).doc(
            "key [path]",
            "Returns the number of members of the objects at a path.",
            "1.0.0",
        ),
        Spec::data("json.resp", -2, READ, Keys::At(1), read::json_resp).doc(
            "key [path]",
            "Returns the values at a path as RESP types.",
            "1.0.0",
        ),
        Spec::data("json.set", -4, WRITE_OOM, Keys::At(1), set::json_set).doc(
            "key path json [NX | XX] [FORMAT <STRING | JSON>]",
            "Sets the JSON value at a path of a key. Creates the key if the path is the root.",
            "1.0.0",
        ),
        Spec::data("json.strappend", -3, WRITE_OOM, Keys::At(1), strappend::json_strappend)
            .doc("key [path] json", "Appends a string to the strings at a path and returns their new lengths.", "1.0.0"),
        Spec::data("json.strlen", -2, READ, Keys::At(1), read::json_strlen).doc(
            "key [path]",
            "Returns the lengths of the strings at a path in bytes.",
            "1.0.0",
        ),
        Spec::data("json.toggle", 3, WRITE, Keys::At(1), toggle::json_toggle).doc(
            "key path",
            "Inverts the booleans at a path.",
            "2.0.0",
        ),
        Spec::data("json.type", -2, READ, Keys::At(1), read::json_type).doc(
            "key [path]",
            "Returns the types of the values at a path.",
            "1.0.0",
        ),
    ];
