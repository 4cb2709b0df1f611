//! The encoding of effects in the journal and the change feed.
//!
//! It touches nothing. A group of effects is self-contained: within it, an effect omits what it shares with
//! the one before (the key, its id and version; a revision that is the next one). Invariant: an encoded group decodes to the
//! same effects; any other bytes decode to effects or a `corrupt` error, without a panic or an allocation beyond their length.
//!
//! ```text
//! effect := tag [revision] [id version key] payload
//! tag    := fact (6 bits) | FOLLOWS (revision is omitted) | SAME_KEY (id, version, key are omitted)
//! ```
//! Numbers are LEB128 varints (positions zigzag), doubles 8 bytes, byte strings a length and their bytes.

mod decode;
mod encode;

pub use decode::Decoder;
pub use encode::encode;

const FOLLOWS: u8 = 0x40;
const SAME_KEY: u8 = 0x80;
const FACT: u8 = 0x3f;

// These numbers are stored in journals: never reuse or renumber one.
const DELETED: u8 = 0;
const FLUSHED: u8 = 1;
const EXPIRY: u8 = 2;
const FRESH: u8 = 3;
const STR: u8 = 4;
const JSON: u8 = 5;
const STATE: u8 = 6;
const HASH_FIELD: u8 = 7;
const HASH_FIELD_UNTIL: u8 = 8;
const HASH_FIELD_DELETED: u8 = 9;
const LIST_AT: u8 = 10;
const LIST_DELETED: u8 = 11;
const SET_MEMBER: u8 = 12;
const SET_MEMBER_DELETED: u8 = 13;
const Z_MEMBER: u8 = 14;
const Z_MEMBER_DELETED: u8 = 15;
const STREAM_ENTRY: u8 = 16;
const STREAM_ENTRY_DELETED: u8 = 17;
const STREAM_META: u8 = 18;
const STREAM_GROUP: u8 = 19;
const STREAM_GROUP_DELETED: u8 = 20;
const STREAM_CONSUMER: u8 = 21;
const STREAM_CONSUMER_DELETED: u8 = 22;
const STREAM_PENDING: u8 = 23;
const STREAM_PENDING_DELETED: u8 = 24;

#[cfg(test)]
mod tests {
    use keystead_core::{Code, Millis, Revision, Version};
    use proptest::prelude::*;

    use super::*;
    use crate::Bytes;
    use crate::effect::{ConsumerFact, Effect, Fact, PendingFact, StreamFact};
    use crate::value::Kind;
    use crate::value::stream::{Fields, Meta, StreamId};

    fn bytes() -> impl Strategy<Value = Bytes> {
        prop::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| Bytes::from(bytes.as_slice()))
    }

    fn moment() -> impl Strategy<Value = Millis> {
        prop_oneof![Just(Millis::NEVER), any::<u64>().prop_map(Millis)]
    }

    fn stream_id() -> impl Strategy<Value = StreamId> {
        (any::<u64>(), any::<u64>()).prop_map(|(ms, seq)| StreamId::new(ms, seq))
    }

    fn score() -> impl Strategy<Value = f64> {
        prop_oneof![any::<f64>().prop_filter("a number", |n| !n.is_nan()), Just(f64::INFINITY), Just(-0.0)]
    }

    fn stream_fact() -> impl Strategy<Value = StreamFact> {
        prop_oneof![
            (stream_id(), prop::collection::vec((bytes(), bytes()), 0..4)).prop_map(|(id, pairs)| {
                let fields =
                    Fields::new(pairs.iter().map(|(field, value)| (field.as_slice(), value.as_slice())));
                StreamFact::Entry { id, fields }
            }),
            stream_id().prop_map(StreamFact::EntryDeleted),
            (stream_id(), stream_id(), any::<u64>()).prop_map(|(last_id, max_deleted_id, entries_added)| {
                StreamFact::Meta(Meta { last_id, max_deleted_id, entries_added })
            }),
            (bytes(), stream_id(), any::<Option<u64>>()).prop_map(|(group, last_id, entries_read)| {
                StreamFact::Group { group, last_id, entries_read }
            }),
            bytes().prop_map(StreamFact::GroupDeleted),
            (bytes(), bytes(), moment(), prop::option::of(moment())).prop_map(
                |(group, consumer, seen_at, active_at)| {
                    StreamFact::Consumer(Box::new(ConsumerFact { group, consumer, seen_at, active_at }))
                }
            ),
            (bytes(), bytes()).prop_map(|(group, consumer)| StreamFact::ConsumerDeleted { group, consumer }),
            (bytes(), stream_id(), bytes(), moment(), any::<u64>()).prop_map(
                |(group, id, consumer, delivered_at, deliveries)| {
                    StreamFact::Pending(Box::new(PendingFact {
                        group,
                        id,
                        consumer,
                        delivered_at,
                        deliveries,
                    }))
                }
            ),
            (bytes(), stream_id()).prop_map(|(group, id)| StreamFact::PendingDeleted { group, id }),
        ]
    }

    fn fact() -> impl Strategy<Value = Fact> {
        prop_oneof![
            Just(Fact::Deleted),
            Just(Fact::Flushed),
            moment().prop_map(Fact::Expiry),
            prop::sample::select(&Kind::ALL[..]).prop_map(Fact::Fresh),
            bytes().prop_map(Fact::Str),
            bytes().prop_map(Fact::Json),
            bytes().prop_map(Fact::State),
            (bytes(), bytes(), moment()).prop_map(|(field, value, expires_at)| Fact::HashField {
                field,
                value,
                expires_at
            }),
            bytes().prop_map(Fact::HashFieldDeleted),
            (any::<i64>(), bytes()).prop_map(|(pos, value)| Fact::ListAt { pos, value }),
            any::<i64>().prop_map(Fact::ListDeleted),
            bytes().prop_map(Fact::SetMember),
            bytes().prop_map(Fact::SetMemberDeleted),
            (bytes(), score()).prop_map(|(member, score)| Fact::ZMember { member, score }),
            bytes().prop_map(Fact::ZMemberDeleted),
            stream_fact().prop_map(Fact::Stream),
        ]
    }

    fn effects() -> impl Strategy<Value = Vec<Effect>> {
        // Few keys and small revision steps, so that effects often omit what they share.
        let effect = (0u32..3, 1u64..3, 0u64..3, fact());
        prop::collection::vec(effect, 0..12).prop_map(|effects| {
            let mut revision = Revision::ZERO;
            let make = |(id, version, step, fact)| {
                revision.0 += step;
                let key = Bytes::from(format!("key:{id}").as_bytes());
                Effect { id, key, version: Version(version), revision, fact }
            };
            effects.into_iter().map(make).collect()
        })
    }

    fn decode(bytes: &[u8]) -> Result<Vec<Effect>, keystead_core::Error> {
        Decoder::new(bytes).collect()
    }

    proptest! {
        #[test]
        fn encoded_effects_decode_to_the_same(effects in effects()) {
            let mut bytes = vec![7; 3];
            encode(&effects, &mut bytes);
            let decoded = decode(&bytes[3..]).unwrap();
            prop_assert_eq!(&decoded, &effects);
            let bits = |effects: &[Effect]| -> Vec<String> { effects.iter().map(|e| format!("{e:?}")).collect() };
            prop_assert_eq!(bits(&decoded), bits(&effects), "the sign of zero too");
        }

        #[test]
        fn a_truncated_or_changed_group_decodes_or_is_corrupt(
            effects in effects(),
            cut in any::<prop::sample::Index>(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        ) {
            let mut bytes = Vec::new();
            encode(&effects, &mut bytes);
            bytes.truncate(cut.index(bytes.len() + 1));
            for (at, byte) in changes {
                if !bytes.is_empty() {
                    let at = at.index(bytes.len());
                    bytes[at] = byte;
                }
            }
            if let Err(error) = decode(&bytes) {
                prop_assert_eq!(error.code(), Code::Corrupt);
            }
        }

        #[test]
        fn any_bytes_decode_or_are_corrupt(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Err(error) = decode(&bytes) {
                prop_assert_eq!(error.code(), Code::Corrupt);
            }
        }
    }

    #[test]
    fn what_effects_share_is_encoded_once() {
        let key = Bytes::from(b"user:1");
        let field = |n: u64| Effect {
            id: 5,
            key: key.clone(),
            version: Version(3),
            revision: Revision(1000 + n),
            fact: Fact::HashField {
                field: Bytes::from(b"f"),
                value: Bytes::from(b"v"),
                expires_at: Millis::NEVER,
            },
        };
        let mut one = Vec::new();
        encode(&[field(0)], &mut one);
        let mut two = Vec::new();
        encode(&[field(0), field(1)], &mut two);
        assert_eq!((one.len(), two.len() - one.len()), (1 + 2 + 1 + 1 + 7 + 4, 1 + 4));
    }

    #[test]
    fn an_error_ends_the_group() {
        let mut decoder = Decoder::new(&[0x3f, 1, 1, 1, 0, 0, 0]);
        assert!(decoder.next().unwrap().is_err());
        assert!(decoder.next().is_none());
        let long = [DELETED, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert_eq!(decode(&long).unwrap_err().message(), "a number is too long");
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn an_effect_is_small() {
        assert!(size_of::<Fact>() <= 64, "{}", size_of::<Fact>());
        assert!(size_of::<Effect>() <= 112, "{}", size_of::<Effect>());
    }
}
