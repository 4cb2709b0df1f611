//! What operation `n` of a group does. Invariant: it depends on the seed, the group and `n`, and on nothing else.

use keystead_core::{Code, Error, Key, Millis, Result, StoreExt, Ttl};
use keystead_engine::Engine;
use keystead_model::Bytes;
use keystead_model::keyspace::{Expire, Keyspace};
use keystead_testkit::rng::Rng;
use keystead_testkit::steps::increment;

/// Far enough away that nothing expires during a test.
const EXPIRES_FROM: Millis = Millis(4_000_000_000_000);

/// Length that a list is trimmed to.
const LIST_LEN_MAX: usize = 6;

/// One operation of one group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub(crate) group: u32,
    pub(crate) n: u64,
    kind: Kind,
    random: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Set,
    Fields,
    Push,
    Count,
    Member,
    Expiry,
    Delete,
    /// Several keys of several kinds, all or nothing.
    Many,
    /// The same, and then it fails: nothing of it may be left.
    Fail,
}

const KINDS: [Kind; 12] = [
    Kind::Set,
    Kind::Set,
    Kind::Fields,
    Kind::Fields,
    Kind::Push,
    Kind::Push,
    Kind::Count,
    Kind::Member,
    Kind::Expiry,
    Kind::Delete,
    Kind::Many,
    Kind::Fail,
];

/// The names in a group, without their common tag.
pub(crate) const NAMES: [&str; 9] = ["s0", "s1", "s2", "s3", "h0", "h1", "list", "count", "set"];

/// A key of a group. All keys of a group are on one shard.
pub(crate) fn key(group: u32, name: &str) -> Vec<u8> {
    format!("{{g{group}}}:{name}").into_bytes()
}

impl Op {
    pub(crate) fn new(seed: u64, group: u32, n: u64) -> Self {
        let mut rng = Rng::new(seed ^ (u64::from(group) << 40) ^ n.wrapping_mul(0x9E37_79B9));
        rng.next_u64();
        let kind = KINDS[rng.below(KINDS.len() as u64) as usize];
        Op { group, n, kind, random: rng.next_u64() }
    }

    /// Runs it on the engine, and returns the shard's revision after it where the operation reads it (else 0).
    pub(crate) async fn submit(self, engine: &Engine) -> Result<u64> {
        let tied = key(self.group, "");
        if self.kind == Kind::Count {
            engine.apply(&Key::new(key(self.group, "count"))?, &increment(Ttl::Never)).await?;
            return Ok(0);
        }
        let ran = engine
            .write(&tied, move |keyspace, now| {
                let before = keyspace.revision();
                self.run(keyspace, now)?;
                // When it changed nothing, the last revision is another job's, and perhaps not durable yet.
                Ok(if keyspace.revision() > before { keyspace.revision().0 } else { 0 })
            })
            .await;
        match ran {
            Err(error) if self.kind == Kind::Fail && error.code() == Code::Conflict => Ok(0),
            other => other,
        }
    }

    /// Runs it on a keyspace. After an error the caller rolls back.
    pub(crate) fn run(self, keyspace: &mut Keyspace, now: Millis) -> Result<()> {
        let pick = |names: &[&str]| key(self.group, names[(self.random >> 8) as usize % names.len()]);
        let strings = ["s0", "s1", "s2", "s3"];
        match self.kind {
            Kind::Set => {
                let expire = if self.random & 1 == 0 { Expire::Keep } else { Expire::At(Millis::NEVER) };
                keyspace.set_str(&pick(&strings), self.payload(), expire, now)?;
            }
            Kind::Fields => self.set_fields(&pick(&["h0", "h1"]), keyspace, now)?,
            Kind::Push => {
                let name = key(self.group, "list");
                let mut list = keyspace.list_mut(&name, now)?;
                list.push_back(&text(self.n));
                if list.len() > LIST_LEN_MAX {
                    list.pop_front();
                }
            }
            // The model has no steps; this is the state that the step results in.
            Kind::Count => {
                let name = key(self.group, "count");
                let count = keyspace.state(&name, now)?.map_or(Ok(0), |cell| parse(&cell.text()?))?;
                keyspace.set_state(&name, &(count + 1).to_string(), Expire::Keep, now)?;
            }
            Kind::Member => {
                let (name, member) = (key(self.group, "set"), text(self.random % 16));
                let mut set = keyspace.set_mut(&name, now)?;
                if !set.remove(&member) {
                    set.insert(&member);
                }
            }
            Kind::Expiry => {
                keyspace.set_expiry(&pick(&strings), EXPIRES_FROM.plus_ms(self.n), now)?;
            }
            Kind::Delete => {
                keyspace.delete(&pick(&["s0", "s1", "s2", "s3", "h1", "list"]), now)?;
            }
            Kind::Many => self.many(keyspace, now)?,
            Kind::Fail => {
                self.many(keyspace, now)?;
                return Err(Error::new(Code::Conflict, "this one always fails"));
            }
        }
        Ok(())
    }

    fn many(self, keyspace: &mut Keyspace, now: Millis) -> Result<()> {
        keyspace.set_str(&key(self.group, "s0"), text(self.n), Expire::Keep, now)?;
        self.set_fields(&key(self.group, "h0"), keyspace, now)?;
        keyspace.delete(&key(self.group, "s1"), now)?;
        keyspace.set_mut(&key(self.group, "set"), now)?.insert(&text(self.n % 32));
        keyspace.set_expiry(&key(self.group, "h0"), EXPIRES_FROM.plus_ms(self.n), now)?;
        keyspace.set_str(&key(self.group, "s2"), self.payload(), Expire::At(Millis::NEVER), now)?;
        Ok(())
    }

    fn set_fields(self, name: &[u8], keyspace: &mut Keyspace, now: Millis) -> Result<()> {
        let mut hash = keyspace.hash_mut(name, now)?;
        for field in ["a", "b", "c"] {
            hash.set(&Bytes::from(field.as_bytes()), &text(self.n));
        }
        let one = text(self.random % 8);
        if hash.remove(&one).is_none() {
            hash.set(&one, &text(self.n));
        }
        Ok(())
    }

    /// Mostly short, sometimes larger than a segment of the journal.
    fn payload(self) -> Bytes {
        let len = match self.random % 128 {
            0 => 20_000,
            1..=8 => 3000,
            short => short as usize * 3,
        };
        let mut rng = Rng::new(self.random);
        Bytes::from((0..len).map(|_| rng.next_u64() as u8).collect::<Vec<u8>>())
    }
}

fn text(n: u64) -> Bytes {
    Bytes::from(n.to_string().into_bytes())
}

fn parse(text: &str) -> Result<u64> {
    text.parse().map_err(|_| Error::new(Code::Corrupt, format!("'{text}' is no count")))
}
