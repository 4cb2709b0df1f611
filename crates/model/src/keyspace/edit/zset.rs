//! Changes of a sorted set. It touches nothing but the keyspace.

use super::ZSetMut;
use crate::Bytes;
use crate::effect::Fact;

impl ZSetMut<'_> {
    /// Sets the score of a member, which must be a number, and returns the old one. Setting the same score changes nothing.
    pub fn insert(&mut self, member: &Bytes, score: f64) -> Option<f64> {
        debug_assert!(!score.is_nan(), "a score is not a number");
        let old = self.value.insert(member, score);
        if old.map(f64::to_bits) != Some(score.to_bits()) {
            self.record(z_member(member, score), || match old {
                Some(old) => z_member(member, old),
                None => Fact::ZMemberDeleted(member.clone()),
            });
        }
        old
    }

    /// Removes a member and returns its score.
    pub fn remove(&mut self, member: &Bytes) -> Option<f64> {
        let old = self.value.remove(member)?;
        self.record(Fact::ZMemberDeleted(member.clone()), || z_member(member, old));
        Some(old)
    }
}

fn z_member(member: &Bytes, score: f64) -> Fact {
    Fact::ZMember { member: member.clone(), score }
}
