//! Scripts where there is no Lua: the family has no commands. It touches nothing.

use crate::spec::Spec;

pub(crate) const TABLE: &[Spec] = &[];
