//! Random histories over all kinds of values, with few keys and few elements, so that operations interact.

use keystead_core::{Change, Millis, Ttl, step_fn};
use proptest::prelude::*;

use crate::Bytes;
use crate::keyspace::{Expire, Keyspace, Miss};
use crate::value::stream::{Fields, Meta, Pending, StreamId};
use crate::value::{Set, Value};

/// One random operation: what to do, to which key, and two numbers that parametrise it.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    what: u8,
    key: u8,
    a: u8,
    b: u8,
}

const WHATS: u8 = 42;

pub(crate) fn ops(most: usize) -> impl Strategy<Value = Vec<Op>> {
    let op =
        (0..WHATS, 0u8..16, any::<u8>(), any::<u8>()).prop_map(|(what, key, a, b)| Op { what, key, a, b });
    prop::collection::vec(op, 0..most)
}

/// The same without scans. A scan goes by id and reclaims what it finds expired, and after a rollback or a load new keys may get
/// other ids: when the clock goes back, one of two keyspaces could have reclaimed a key that exists in the other.
pub(crate) fn ops_by_name(most: usize) -> impl Strategy<Value = Vec<Op>> {
    ops(most).prop_map(|mut ops| {
        ops.retain(|op| !op.scans());
        ops
    })
}

fn key(n: u8) -> Bytes {
    let long = if n.is_multiple_of(2) { "" } else { "a-name-that-is-too-long-for-inline:" };
    Bytes::from(format!("{long}{n}").as_bytes())
}

fn element(n: u8) -> Bytes {
    Bytes::from(format!("e{}", n % 12).as_bytes())
}

fn content(n: u8) -> Bytes {
    Bytes::from(vec![n; usize::from(n) * usize::from(n % 3)].as_slice())
}

fn stream_id(a: u8, b: u8) -> StreamId {
    let ms = if a == 255 { u64::MAX } else { u64::from(a % 16) + 1 };
    StreamId::new(ms, u64::from(b % 3))
}

impl Op {
    /// Runs it. A wrong kind is a valid result; the archive must never fail.
    pub(crate) fn run(&self, ks: &mut Keyspace, now: &mut Millis) {
        match self.try_run(ks, now) {
            Ok(()) | Err(Miss::WrongType(_)) => {}
            Err(Miss::Failed(error)) => panic!("{self:?}: {error}"),
        }
    }

    /// More often than not a key of the operation's kind; otherwise most operations would fail with a wrong kind.
    fn key(&self) -> Bytes {
        key(match (self.key, self.what) {
            (0..7, _) => self.key,
            (_, 10..14) => 0,
            (_, 14..21) => 1,
            (_, 21 | 22) => 2,
            (_, 23) => 3,
            (_, 24..34) => 4,
            _ => 5,
        })
    }

    fn scans(&self) -> bool {
        self.what > 39 || (self.what == 39 && self.a >= 40)
    }

    fn try_run(&self, ks: &mut Keyspace, now: &mut Millis) -> Result<(), Miss> {
        let (k, at) = (self.key(), now.plus_ms(u64::from(self.b) * 20));
        match self.what {
            0..10 => self.whole(ks, &k, at, *now)?,
            10..24 => self.collection(ks, &k, at, *now)?,
            24..34 => self.stream(ks, &k, *now)?,
            34 => *now = now.plus_ms(u64::from(self.a) * 8),
            35 => *now = Millis(now.0.saturating_sub(u64::from(self.a))),
            36 => drop(ks.value(&k, *now)?),
            37 => drop(ks.rename(&k, &key(self.a % 7), self.b.is_multiple_of(2), *now)?),
            38 => drop(ks.copy(&k, &key(self.a % 7), self.b.is_multiple_of(2), *now)?),
            39 if !self.scans() => ks.flush(),
            40 => drop(ks.scan(u64::from(self.a % 8), 3, *now, |_, _| {})?),
            _ => drop(ks.random_key(u64::from(self.a), *now)?),
        }
        Ok(())
    }

    fn whole(&self, ks: &mut Keyspace, k: &[u8], at: Millis, now: Millis) -> Result<(), Miss> {
        let expire = match self.b % 3 {
            0 => Expire::Keep,
            1 => Expire::At(Millis::NEVER),
            _ => Expire::At(at),
        };
        match self.what {
            0 | 1 => drop(ks.set_str(k, content(self.a), expire, now)?),
            2 => drop(ks.set_json(k, Bytes::from(b"{\"a\": 1}"), expire, now)?),
            3 => drop(ks.set_state(k, "7", expire, now)?),
            4 => {
                let mut set = Set::new();
                (0..self.a % 4).for_each(|n| assert!(set.insert(&element(n))));
                ks.replace(k, Value::Set(set), expire, now)?;
            }
            5 => drop(ks.delete(k, now)?),
            6 => drop(ks.set_expiry(k, if self.a < 30 { Millis::NEVER } else { at }, now)?),
            _ => run_step(ks, k, self.a, self.b, now)?,
        }
        Ok(())
    }

    fn collection(&self, ks: &mut Keyspace, k: &[u8], at: Millis, now: Millis) -> Result<(), Miss> {
        let (e, v, i) = (element(self.a), content(self.b), usize::from(self.a % 8));
        match self.what {
            10 => drop(ks.hash_mut(k, now)?.set(&e, &v)),
            11 => drop(ks.hash_mut(k, now)?.set_until(&e, &v, at)),
            12 => drop(ks.hash_mut(k, now)?.set_field_expiry(&e, at)),
            13 => {
                let mut hash = ks.hash_mut(k, now)?;
                (0..self.b % 8).for_each(|n| drop(hash.remove(&element(n))));
            }
            14 => {
                let mut list = ks.list_mut(k, now)?;
                (0..self.b % 4).for_each(|_| list.push_front(&v));
            }
            15 => ks.list_mut(k, now)?.push_back(&e),
            16 => drop(ks.list_mut(k, now)?.pop_front()),
            17 => drop(ks.list_mut(k, now)?.pop_back()),
            18 => drop(ks.list_mut(k, now)?.set(i, &v)),
            19 => ks.list_mut(k, now)?.insert(i, &v),
            20 if self.b < 60 => ks.list_mut(k, now)?.trim(i..usize::from(self.b % 8)),
            20 => drop(ks.list_mut(k, now)?.remove(i)),
            21 => {
                let mut set = ks.set_mut(k, now)?;
                for n in 0..self.b % 4 {
                    set.insert(&element(self.a.wrapping_add(n)));
                }
            }
            22 => drop(ks.set_mut(k, now)?.remove(&e)),
            _ if self.b < 80 => drop(ks.zset_mut(k, now)?.remove(&e)),
            _ => drop(
                ks.zset_mut(k, now)?.insert(&e, if self.b == 255 { -0.0 } else { f64::from(self.b) / 3.0 }),
            ),
        }
        Ok(())
    }

    fn stream(&self, ks: &mut Keyspace, k: &[u8], now: Millis) -> Result<(), Miss> {
        let (id, group, consumer) = (stream_id(self.a, self.b), element(self.a % 2), element(self.b % 3));
        let mut stream = ks.stream_mut(k, now)?;
        match self.what {
            24 | 25 => {
                let value = content(self.b);
                let pairs = [(&b"f"[..], value.as_slice()), (b"g", b"")];
                stream.put(id, &Fields::new(pairs[..1 + usize::from(self.a % 2)].iter().copied()));
                let meta =
                    Meta { last_id: id, max_deleted_id: StreamId::MIN, entries_added: u64::from(self.b) };
                stream.set_meta(meta);
            }
            26 => drop(stream.remove(id)),
            27 => stream.put_group(&group, id, self.b.is_multiple_of(2).then_some(u64::from(self.b))),
            28 if self.b < 100 => drop(stream.remove_group(&group)),
            28 | 29 => {
                _ = stream.put_consumer(&group, &consumer, now, self.b.is_multiple_of(2).then_some(now));
            }
            30 => drop(stream.remove_consumer(&group, &consumer)),
            31 | 32 => {
                let pending = Pending { consumer, delivered_at: now, deliveries: u64::from(self.b) };
                stream.put_pending(&group, id, &pending);
            }
            _ => drop(stream.remove_pending(&group, id)),
        }
        Ok(())
    }
}

fn run_step(ks: &mut Keyspace, k: &[u8], a: u8, b: u8, now: Millis) -> Result<(), Miss> {
    let ttl = match b % 4 {
        0 => Ttl::Never,
        1 => Ttl::Same,
        _ => Ttl::Ms(u64::from(b) * 10),
    };
    let step = step_fn(move |n: Option<&u64>, _now| match a % 8 {
        0 => Change::Keep(()),
        1 => Change::Delete(()),
        _ => Change::Put(n.map_or(0, |n| n + 1), ttl, ()),
    });
    match ks.apply(k, &step, now) {
        Err(error) if error.code() == keystead_core::Code::WrongType => Ok(()),
        other => Ok(other?),
    }
}
