//! Changes of a set. It touches nothing but the keyspace.

use super::SetMut;
use crate::Bytes;
use crate::effect::Fact;

impl SetMut<'_> {
    /// Adds a member and returns whether it is new.
    pub fn insert(&mut self, member: &Bytes) -> bool {
        let new = self.value.insert(member);
        if new {
            self.record(Fact::SetMember(member.clone()), || Fact::SetMemberDeleted(member.clone()));
        }
        new
    }

    /// Removes a member and returns whether it existed.
    pub fn remove(&mut self, member: &Bytes) -> bool {
        let was = self.value.remove(member);
        if was {
            self.record(Fact::SetMemberDeleted(member.clone()), || Fact::SetMember(member.clone()));
        }
        was
    }
}
