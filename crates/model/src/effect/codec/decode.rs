//! From bytes to effects, with every bound checked. It touches nothing.

use keystead_core::{Code, Error, Millis, Result, Revision, Version};

use super::*;
use crate::Bytes;
use crate::effect::{ConsumerFact, Effect, Fact, PendingFact, StreamFact};
use crate::value::Kind;
use crate::value::stream::{Fields, Meta, StreamId};

/// Decodes a group of effects, one after the other. It ends after the last one, or after the first error.
pub struct Decoder<'a> {
    rest: &'a [u8],
    /// The previous effect: the next one may omit what it shares with it.
    before: Option<Effect>,
    /// Strings, documents and states are skipped.
    skips_values: bool,
}

impl<'a> Decoder<'a> {
    /// Decodes the group in `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Decoder { rest: bytes, before: None, skips_values: false }
    }

    /// The same, but strings, documents and states are empty: for a reader that has them from elsewhere.
    #[must_use]
    pub fn without_values(bytes: &'a [u8]) -> Self {
        Decoder { skips_values: true, ..Decoder::new(bytes) }
    }

    /// Each effect with the bytes that it takes, also those of a value that is skipped.
    pub fn sized(mut self) -> impl Iterator<Item = Result<(Effect, usize)>> + use<'a> {
        std::iter::from_fn(move || {
            let before = self.rest.len();
            let effect = self.next()?;
            Some(effect.map(|effect| (effect, before - self.rest.len())))
        })
    }

    fn effect(&mut self) -> Result<Effect> {
        let tag = self.byte()?;
        let before = self.before.take();
        let revision = match (&before, tag & FOLLOWS != 0) {
            (_, false) => Revision(self.u64()?),
            (Some(before), true) => Revision(before.revision.0.wrapping_add(1)),
            (None, true) => return Err(corrupt("the first effect of a group has no revision")),
        };
        let (id, version, key) = match (before, tag & SAME_KEY != 0) {
            (_, false) => (self.id()?, Version(self.u64()?), self.bytes()?),
            (Some(before), true) => (before.id, before.version, before.key),
            (None, true) => return Err(corrupt("the first effect of a group has no key")),
        };
        let fact = self.fact(tag & FACT)?;
        self.before = Some(Effect { id, key: key.clone(), version, revision, fact: Fact::Deleted });
        Ok(Effect { id, key, version, revision, fact })
    }

    fn fact(&mut self, tag: u8) -> Result<Fact> {
        Ok(match tag {
            DELETED => Fact::Deleted,
            FLUSHED => Fact::Flushed,
            EXPIRY => Fact::Expiry(Millis(self.u64()?.wrapping_sub(1))),
            FRESH => {
                let code = self.byte()?;
                Fact::Fresh(
                    Kind::from_code(code)
                        .ok_or_else(|| corrupt("an effect is of an unknown kind of value"))?,
                )
            }
            STR => Fact::Str(self.whole()?),
            JSON => Fact::Json(self.whole()?),
            STATE => Fact::State(self.whole()?),
            HASH_FIELD => {
                Fact::HashField { field: self.bytes()?, value: self.bytes()?, expires_at: Millis::NEVER }
            }
            HASH_FIELD_UNTIL => Fact::HashField {
                field: self.bytes()?,
                value: self.bytes()?,
                expires_at: Millis(self.u64()?),
            },
            HASH_FIELD_DELETED => Fact::HashFieldDeleted(self.bytes()?),
            LIST_AT => Fact::ListAt { pos: self.i64()?, value: self.bytes()? },
            LIST_DELETED => Fact::ListDeleted(self.i64()?),
            SET_MEMBER => Fact::SetMember(self.bytes()?),
            SET_MEMBER_DELETED => Fact::SetMemberDeleted(self.bytes()?),
            Z_MEMBER => Fact::ZMember { member: self.bytes()?, score: self.f64()? },
            Z_MEMBER_DELETED => Fact::ZMemberDeleted(self.bytes()?),
            _ => Fact::Stream(self.stream_fact(tag)?),
        })
    }

    fn stream_fact(&mut self, tag: u8) -> Result<StreamFact> {
        Ok(match tag {
            STREAM_ENTRY => StreamFact::Entry { id: self.stream_id()?, fields: self.fields()? },
            STREAM_ENTRY_DELETED => StreamFact::EntryDeleted(self.stream_id()?),
            STREAM_META => StreamFact::Meta(Meta {
                last_id: self.stream_id()?,
                max_deleted_id: self.stream_id()?,
                entries_added: self.u64()?,
            }),
            STREAM_GROUP => StreamFact::Group {
                group: self.bytes()?,
                last_id: self.stream_id()?,
                entries_read: self.option()?,
            },
            STREAM_GROUP_DELETED => StreamFact::GroupDeleted(self.bytes()?),
            STREAM_CONSUMER => StreamFact::Consumer(Box::new(ConsumerFact {
                group: self.bytes()?,
                consumer: self.bytes()?,
                seen_at: Millis(self.u64()?),
                active_at: self.option()?.map(Millis),
            })),
            STREAM_CONSUMER_DELETED => {
                StreamFact::ConsumerDeleted { group: self.bytes()?, consumer: self.bytes()? }
            }
            STREAM_PENDING => StreamFact::Pending(Box::new(PendingFact {
                group: self.bytes()?,
                id: self.stream_id()?,
                consumer: self.bytes()?,
                delivered_at: Millis(self.u64()?),
                deliveries: self.u64()?,
            })),
            STREAM_PENDING_DELETED => {
                StreamFact::PendingDeleted { group: self.bytes()?, id: self.stream_id()? }
            }
            _ => return Err(corrupt("an effect is of an unknown kind")),
        })
    }

    fn fields(&mut self) -> Result<Fields> {
        Fields::from_bytes(self.bytes()?).ok_or_else(|| corrupt("the fields of a stream entry are broken"))
    }

    fn option(&mut self) -> Result<Option<u64>> {
        match self.byte()? {
            0 => Ok(None),
            1 => self.u64().map(Some),
            _ => Err(corrupt("the tag of an option is neither 0 nor 1")),
        }
    }

    fn byte(&mut self) -> Result<u8> {
        let (&byte, rest) = self.rest.split_first().ok_or_else(cut_short)?;
        self.rest = rest;
        Ok(byte)
    }

    fn u64(&mut self) -> Result<u64> {
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            n |= bits << shift;
            if byte < 0x80 {
                return Ok(n);
            }
        }
        Err(corrupt("a number is too long"))
    }

    fn i64(&mut self) -> Result<i64> {
        let n = self.u64()?;
        Ok((n >> 1) as i64 ^ -((n & 1) as i64))
    }

    fn id(&mut self) -> Result<u32> {
        u32::try_from(self.u64()?).map_err(|_| corrupt("an id is too large"))
    }

    fn f64(&mut self) -> Result<f64> {
        let (bytes, rest) = self.rest.split_first_chunk::<8>().ok_or_else(cut_short)?;
        self.rest = rest;
        let n = f64::from_le_bytes(*bytes);
        if n.is_nan() { Err(corrupt("a score is not a number")) } else { Ok(n) }
    }

    fn bytes(&mut self) -> Result<Bytes> {
        self.slice().map(Bytes::from)
    }

    fn whole(&mut self) -> Result<Bytes> {
        let bytes = self.slice()?;
        Ok(if self.skips_values { Bytes::new() } else { Bytes::from(bytes) })
    }

    fn slice(&mut self) -> Result<&'a [u8]> {
        let len = usize::try_from(self.u64()?).map_err(|_| cut_short())?;
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or_else(cut_short)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn stream_id(&mut self) -> Result<StreamId> {
        Ok(StreamId { ms: self.u64()?, seq: self.u64()? })
    }
}

impl Iterator for Decoder<'_> {
    type Item = Result<Effect>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let effect = self.effect();
        if effect.is_err() {
            self.rest = &[];
        }
        Some(effect)
    }
}

fn cut_short() -> Error {
    corrupt("an effect is cut short")
}

fn corrupt(why: &'static str) -> Error {
    Error::new(Code::Corrupt, why)
}
