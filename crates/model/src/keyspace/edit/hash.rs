//! Changes of a hash. It touches nothing but the keyspace.

use keystead_core::Millis;

use super::HashMut;
use crate::Bytes;
use crate::effect::Fact;

impl HashMut<'_> {
    /// Sets a field without an expiry, and returns its old value.
    pub fn set(&mut self, field: &Bytes, value: &Bytes) -> Option<Bytes> {
        self.set_until(field, value, Millis::NEVER)
    }

    /// Sets a field and its expiry, and returns its old value.
    pub fn set_until(&mut self, field: &Bytes, value: &Bytes, expires_at: Millis) -> Option<Bytes> {
        let old = self.value.insert(field, value);
        let old_expires_at = self.value.set_expires_at(field, expires_at);
        let before = || match &old {
            Some(old) => hash_field(field, old, old_expires_at),
            None => Fact::HashFieldDeleted(field.clone()),
        };
        self.record(hash_field(field, value, expires_at), before);
        old
    }

    /// Sets when a field expires ([`Millis::NEVER`]: never), and returns whether it exists.
    pub fn set_field_expiry(&mut self, field: &Bytes, expires_at: Millis) -> bool {
        let Some(value) = self.value.get(field).map(Bytes::from) else {
            return false;
        };
        let old_expires_at = self.value.set_expires_at(field, expires_at);
        self.record(hash_field(field, &value, expires_at), || hash_field(field, &value, old_expires_at));
        true
    }

    /// Removes a field and returns its value.
    pub fn remove(&mut self, field: &Bytes) -> Option<Bytes> {
        let expires_at = self.value.expires_at(field);
        let old = self.value.remove(field)?;
        self.record(Fact::HashFieldDeleted(field.clone()), || hash_field(field, &old, expires_at));
        Some(old)
    }
}

fn hash_field(field: &Bytes, value: &Bytes, expires_at: Millis) -> Fact {
    Fact::HashField { field: field.clone(), value: value.clone(), expires_at }
}
