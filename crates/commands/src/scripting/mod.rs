//! Scripts: the table of this family.

use crate::spec::Spec;

pub(crate) const TABLE: &[Spec] = &[];
