//! JSON documents: the table of this family.

pub mod document;
pub mod merge;
pub mod path;
pub mod place;
pub mod print;

use crate::spec::Spec;

pub(crate) const TABLE: &[Spec] = &[];
