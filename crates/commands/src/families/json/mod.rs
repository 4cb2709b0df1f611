//! JSON documents: the table of this family, and the trees, paths and merging that other doors use, too.
//!
//! | To find                                   | open                     |
//! |-------------------------------------------|--------------------------|
//! | text to tree and back, the stored form    | [`document`], `tree`     |
//! | paths, what they select                   | [`path`]                 |
//! | places in a tree, and changes there       | [`location`]                |
//! | RFC 7396 and shallow merging              | [`merge`]                |
//! | text with indents                         | [`mod@print`]            |
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
        Spec::data("JSON.ARRAPPEND", "json.arrappend", -4, WRITE_OOM, Keys::At(1), array::json_arrappend)
            .doc("key path json [json ...]", "Appends values to arrays, and gives their lengths.", "1.0.0"),
        Spec::data("JSON.ARRINDEX", "json.arrindex", -4, READ, Keys::At(1), array::json_arrindex).doc(
            "key path json [start [stop]]",
            "Finds a value in arrays.",
            "1.0.0",
        ),
        Spec::data("JSON.ARRINSERT", "json.arrinsert", -5, WRITE_OOM, Keys::At(1), array::json_arrinsert)
            .doc(
                "key path index json [json ...]",
                "Inserts values into arrays, and gives their lengths.",
                "1.0.0",
            ),
        Spec::data("JSON.ARRLEN", "json.arrlen", -2, READ, Keys::At(1), read::json_arrlen).doc(
            "key [path]",
            "Gives the lengths of arrays.",
            "1.0.0",
        ),
        Spec::data("JSON.ARRPOP", "json.arrpop", -2, WRITE, Keys::At(1), array::json_arrpop).doc(
            "key [path [index]]",
            "Takes an element out of arrays, and gives it.",
            "1.0.0",
        ),
        Spec::data("JSON.ARRTRIM", "json.arrtrim", 5, WRITE, Keys::At(1), array::json_arrtrim).doc(
            "key path start stop",
            "Leaves a part of arrays, and gives their lengths.",
            "1.0.0",
        ),
        Spec::data("JSON.CLEAR", "json.clear", -2, WRITE, Keys::At(1), toggle::json_clear).doc(
            "key [path]",
            "Empties arrays and objects, sets numbers to 0, and counts them.",
            "2.0.0",
        ),
        Spec::within("JSON.DEBUG", "json.debug", debug::TABLE).doc("", "", "1.0.0"),
        Spec::data("JSON.DEL", "json.del", -2, WRITE, Keys::At(1), del::json_del).doc(
            "key [path]",
            "Deletes values, and counts them.",
            "1.0.0",
        ),
        Spec::data("JSON.FORGET", "json.forget", -2, WRITE, Keys::At(1), del::json_del).doc(
            "key [path]",
            "Deletes values, and counts them; another name of JSON.DEL.",
            "1.0.0",
        ),
        Spec::data("JSON.GET", "json.get", -2, READ, Keys::At(1), get::json_get).doc(
            GET_SYNTAX,
            "Gives values as JSON text.",
            "1.0.0",
        ),
        Spec::data("JSON.MERGE", "json.merge", -4, WRITE_OOM, Keys::At(1), set::json_merge).doc(
            "key path json [FORMAT <STRING | JSON>]",
            "Merges a value into values, as RFC 7396 has it.",
            "2.6.0",
        ),
        Spec::data("JSON.MGET", "json.mget", -3, and(READ, WHOLE), Keys::Until(1, 1), get::json_mget).doc(
            "key [key ...] path",
            "Gives values of several documents as JSON text.",
            "1.0.0",
        ),
        Spec::data("JSON.MSET", "json.mset", -4, and(WRITE_OOM, WHOLE), Keys::Every(1, 3), set::json_mset)
            .doc(
                "key path json [key path json ...]",
                "Puts values into several documents, all or none.",
                "2.6.0",
            ),
        Spec::data("JSON.NUMINCRBY", "json.numincrby", 4, WRITE_OOM, Keys::At(1), number::json_numincrby)
            .doc("key path value", "Adds to numbers.", "1.0.0"),
        Spec::data("JSON.NUMMULTBY", "json.nummultby", 4, WRITE_OOM, Keys::At(1), number::json_nummultby)
            .doc("key path value", "Multiplies numbers.", "1.0.0"),
        Spec::data("JSON.OBJKEYS", "json.objkeys", -2, READ, Keys::At(1), read::json_objkeys).doc(
            "key [path]",
            "Gives the names of the members of objects.",
            "1.0.0",
        ),
        Spec::data("JSON.OBJLEN", "json.objlen", -2, READ, Keys::At(1), read::json_objlen).doc(
            "key [path]",
            "Counts the members of objects.",
            "1.0.0",
        ),
        Spec::data("JSON.RESP", "json.resp", -2, READ, Keys::At(1), read::json_resp).doc(
            "key [path]",
            "Gives values in the types of RESP.",
            "1.0.0",
        ),
        Spec::data("JSON.SET", "json.set", -4, WRITE_OOM, Keys::At(1), set::json_set).doc(
            "key path json [NX | XX] [FORMAT <STRING | JSON>]",
            "Puts a value into a document, or a document under a key.",
            "1.0.0",
        ),
        Spec::data("JSON.STRAPPEND", "json.strappend", -3, WRITE_OOM, Keys::At(1), strappend::json_strappend)
            .doc("key [path] json", "Appends to strings, and gives their lengths.", "1.0.0"),
        Spec::data("JSON.STRLEN", "json.strlen", -2, READ, Keys::At(1), read::json_strlen).doc(
            "key [path]",
            "Gives the lengths of strings, in bytes.",
            "1.0.0",
        ),
        Spec::data("JSON.TOGGLE", "json.toggle", 3, WRITE, Keys::At(1), toggle::json_toggle).doc(
            "key path",
            "Turns true into false and false into true.",
            "2.0.0",
        ),
        Spec::data("JSON.TYPE", "json.type", -2, READ, Keys::At(1), read::json_type).doc(
            "key [path]",
            "Gives the kinds of values.",
            "1.0.0",
        ),
    ];
