//! Costs that are known only afterwards: reserve an estimate, settle what it really was.
//!
//! The tokens of a language model, the rows of a query, the bytes of an answer: the limit must say yes or no before, and the
//! cost is there only after. A reservation consumes the estimate; settling gives back what was too much, or charges what was
//! too little even where the limit would not admit it, since it has happened: the next ones wait for it.
//!
//! A reservation is a note under a key of its own, taken exactly once. One that is never settled expires, and the estimate
//! stands: whoever crashed in between has probably spent it.

use keystead_core::{Applies, Change, Code, Error, Key, Millis, Result, Step, Store, StoreExt, Ttl, key};
use serde::{Deserialize, Serialize};

use crate::decision::Decision;
use crate::limiter::{Limiter, together};
use crate::limits::{SPAN_MS_MAX, WHOLE_MAX};
use crate::question::Question;
use crate::strategy::{AnyStrategy, Ask, Charge, Refund, Spent, with_strategy};

/// What a reservation came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// Whether the estimate is admitted.
    pub decision: Decision,
    /// The instant of the decision.
    pub now: Millis,
    /// The id to settle with, where it is.
    pub id: Option<u64>,
}

/// A reservation that is to be made. It owns everything, so it can go where the keys are.
#[derive(Clone, Debug)]
pub struct Reserve {
    question: Question,
    note: Key,
    id: u64,
    ttl_ms: u64,
}

/// A reservation that is to be settled.
#[derive(Clone, Debug)]
pub struct Settle {
    question: Question,
    note: Key,
    cost: u64,
}

impl Reserve {
    /// The keys that a job holds for it.
    #[must_use]
    pub fn keys(&self) -> [Key; 2] {
        [self.question.key.clone(), self.note.clone()]
    }

    /// Reserves while nobody else can touch the keys.
    ///
    /// # Errors
    /// What the store says.
    pub fn run(&self, held: &mut dyn Applies) -> Result<Reserved> {
        let (decision, now) = self.question.check(held)?;
        if decision.allowed {
            held.apply(&self.note, &self.leave(&decision, now))?;
        }
        Ok(self.reserved(decision, now))
    }

    /// The note comes after the decision: one that is lost in between leaves an estimate that stands.
    async fn run_in_turn<S: Store + ?Sized>(&self, store: &S) -> Result<Reserved> {
        let (decision, now) = self.question.check_on(store).await?;
        if decision.allowed {
            store.apply(&self.note, &self.leave(&decision, now)).await?;
        }
        Ok(self.reserved(decision, now))
    }

    fn leave(&self, decision: &Decision, now: Millis) -> Leave {
        Leave { note: Note::new(self.question.spent(decision, now)), ttl_ms: self.ttl_ms }
    }

    fn reserved(&self, decision: Decision, now: Millis) -> Reserved {
        Reserved { decision, now, id: decision.allowed.then_some(self.id) }
    }
}

impl Settle {
    /// The keys that a job holds for it.
    #[must_use]
    pub fn keys(&self) -> [Key; 2] {
        [self.question.key.clone(), self.note.clone()]
    }

    /// Settles while nobody else can touch the keys, and tells how things stand then. Nothing: the reservation is settled
    /// already, or has expired, or never was.
    ///
    /// # Errors
    /// What the store says.
    pub fn run(&self, held: &mut dyn Applies) -> Result<Option<(Decision, Millis)>> {
        let Some(note) = held.apply(&self.note, &Take)? else { return Ok(None) };
        with_strategy!(self.question.strategy, strategy => {
            match self.change(strategy, &note) {
                Owed::Nothing => {}
                Owed::Back(refund) => held.apply(&self.question.key, &refund)?,
                Owed::More(charge) => drop(held.apply(&self.question.key, &charge)?),
            }
        });
        self.question.peek(held).map(Some)
    }

    /// The note goes first, so that nothing is given back twice.
    async fn run_in_turn<S: Store + ?Sized>(&self, store: &S) -> Result<Option<(Decision, Millis)>> {
        let Some(note) = store.apply(&self.note, &Take).await? else { return Ok(None) };
        with_strategy!(self.question.strategy, strategy => {
            match self.change(strategy, &note) {
                Owed::Nothing => {}
                Owed::Back(refund) => store.apply(&self.question.key, &refund).await?,
                Owed::More(charge) => drop(store.apply(&self.question.key, &charge).await?),
            }
        });
        self.question.peek_on(store).await.map(Some)
    }

    fn change<S>(&self, strategy: S, note: &Note) -> Owed<S> {
        let spent = note.spent();
        let ask = Ask::units(self.cost.abs_diff(spent.units));
        match self.cost.cmp(&spent.units) {
            std::cmp::Ordering::Less => Owed::Back(Refund { strategy, ask, spent }),
            std::cmp::Ordering::Equal => Owed::Nothing,
            std::cmp::Ordering::Greater => Owed::More(Charge { strategy, ask }),
        }
    }
}

enum Owed<S> {
    Nothing,
    Back(Refund<S>),
    More(Charge<S>),
}

impl<S: Store> Limiter<S> {
    /// Reserves an estimate, to be [settled](Limiter::settle_reserved) within `ttl_ms`.
    ///
    /// ```
    /// use keystead_limit::strategy::TokenBucket;
    /// use keystead_limit::{Fail, Limiter};
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    /// # runtime.block_on(async {
    /// let tokens = Limiter::in_memory(TokenBucket::new(10_000, 1.0)?, Fail::Closed);
    /// let reserved = tokens.reserve("ada", 4_000, 60_000).await?;
    /// let Some(id) = reserved.id else { panic!("{:?}", reserved.decision) };
    /// // ... and the answer took 1,500 tokens only:
    /// let now = tokens.settle_reserved("ada", id, 1_500).await?.unwrap();
    /// assert_eq!(now.remaining, 8_500);
    /// assert!(tokens.settle_reserved("ada", id, 1_500).await?.is_none(), "once");
    /// # Ok::<(), keystead_core::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// `unsupported` for a `concurrency` policy, whose leases are no units; else as [`check`](Limiter::check).
    pub async fn reserve(&self, key: impl AsRef<[u8]>, cost: u64, ttl_ms: u64) -> Result<Reserved> {
        let reserve = self.reserving(key, cost, ttl_ms)?;
        let job = reserve.clone();
        let answer = match together(self.store(), &reserve.keys(), move |held| job.run(held)).await {
            Err(error) if error.code() == Code::Unsupported => reserve.run_in_turn(self.store()).await,
            answer => answer,
        };
        let id = answer.as_ref().ok().and_then(|reserved| reserved.id);
        let (decision, now) = self.settled(answer.map(|reserved| (reserved.decision, reserved.now)))?;
        Ok(Reserved { decision, now, id })
    }

    /// Settles a reservation at what it really cost, 0 and more, and tells how things stand then. Nothing: it is settled
    /// already, or has expired, or never was.
    ///
    /// # Errors
    /// As [`reserve`](Limiter::reserve).
    pub async fn settle_reserved(
        &self,
        key: impl AsRef<[u8]>,
        id: u64,
        cost: u64,
    ) -> Result<Option<Decision>> {
        let settle = self.settling(key, id, cost)?;
        let job = settle.clone();
        let answer = match together(self.store(), &settle.keys(), move |held| job.run(held)).await {
            Err(error) if error.code() == Code::Unsupported => settle.run_in_turn(self.store()).await,
            answer => answer,
        };
        Ok(answer?.map(|(decision, _)| decision))
    }

    /// A reservation of this limiter, to be made where the keys are held.
    ///
    /// # Errors
    /// `unsupported` for a `concurrency` policy, `bad_request` or `too_large` for what cannot be.
    pub fn reserving(&self, key: impl AsRef<[u8]>, cost: u64, ttl_ms: u64) -> Result<Reserve> {
        if !(1..=SPAN_MS_MAX).contains(&ttl_ms) {
            let message = format!("a reservation lives from 1 to {SPAN_MS_MAX} milliseconds, not {ttl_ms}");
            return Err(Error::new(Code::BadRequest, message));
        }
        let (question, id) = (self.for_units(key, cost)?, self.next_id());
        Ok(Reserve { note: note_key(&question.key, id)?, question, id, ttl_ms })
    }

    /// The settling of a reservation of this limiter, to be done where the keys are held.
    ///
    /// # Errors
    /// As [`reserving`](Limiter::reserving).
    pub fn settling(&self, key: impl AsRef<[u8]>, id: u64, cost: u64) -> Result<Settle> {
        if cost > WHOLE_MAX {
            let message = format!("cost must be a whole number from 0 to {WHOLE_MAX}, not {cost}");
            return Err(Error::new(Code::BadRequest, message));
        }
        let question = self.for_units(key, 1)?;
        Ok(Settle { note: note_key(&question.key, id)?, question, cost })
    }

    fn for_units(&self, key: impl AsRef<[u8]>, cost: u64) -> Result<Question> {
        if matches!(self.policy().strategy(), AnyStrategy::Concurrency(_)) {
            let message = "a concurrency policy has leases, not units: acquire and release them";
            return Err(Error::new(Code::Unsupported, message));
        }
        self.question(key, cost)
    }
}

/// The key of a reservation's note, which lives where the limit's own key lives: it has the same tag, or that key as its tag.
fn note_key(limit: &Key, id: u64) -> Result<Key> {
    let limit = limit.as_bytes();
    let mut name = format!("{id}:").into_bytes();
    match key::hash_tag(limit).len() == limit.len() {
        true => name.extend([b"{", limit, b"}"].concat()),
        false => name.extend(limit),
    }
    Key::join("reserved", name)
}

/// What was reserved, as it rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    cost: u64,
    at: u64,
    until: u64,
}

impl Note {
    fn new(spent: Spent) -> Note {
        Note { cost: spent.units, at: spent.at.0, until: spent.until.0 }
    }

    fn spent(self) -> Spent {
        Spent { units: self.cost, at: Millis(self.at), until: Millis(self.until) }
    }
}

#[derive(Clone, Copy)]
struct Leave {
    note: Note,
    ttl_ms: u64,
}

impl Step for Leave {
    type State = Note;
    type Reply = ();

    fn run(&self, _state: Option<&Note>, _now: Millis) -> Change<Note, ()> {
        Change::Put(self.note, Ttl::Ms(self.ttl_ms), ())
    }
}

#[derive(Clone, Copy)]
struct Take;

impl Step for Take {
    type State = Note;
    type Reply = Option<Note>;

    fn run(&self, state: Option<&Note>, _now: Millis) -> Change<Note, Option<Note>> {
        match state {
            Some(note) => Change::Delete(Some(*note)),
            None => Change::Keep(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use keystead_core::ManualClock;

    use super::*;
    use crate::fail::Fail;
    use crate::policy::Policy;
    use crate::testing::{Shared, memory, now};

    const POLICIES: [&str; 7] = [
        r#"{"kind":"gcra","limit":100,"periodMs":100000}"#,
        r#"{"kind":"tokenBucket","capacity":100,"refillPerSec":1}"#,
        r#"{"kind":"fixedWindow","limit":100,"windowMs":100000}"#,
        r#"{"kind":"slidingWindow","limit":100,"windowMs":100000}"#,
        r#"{"kind":"slidingWindowLog","limit":100,"windowMs":100000}"#,
        r#"{"kind":"quota","limit":100,"resetCadence":"calendar-day"}"#,
        r#"{"kind":"leakyBucket","ratePerSec":1,"maxQueueMs":99999}"#,
    ];

    fn each(run: impl Fn(&ManualClock, Limiter<Arc<dyn Store>>)) {
        for policy in POLICIES {
            for is_shared in [false, true] {
                let clock = ManualClock::at(Millis(1_700_000_000_000));
                let store: Arc<dyn Store> =
                    if is_shared { Arc::new(Shared::new(&clock)) } else { Arc::new(memory(&clock)) };
                let limiter = Limiter::new(Policy::from_json(policy).unwrap(), store, Fail::Closed);
                run(&clock, limiter);
            }
        }
    }

    fn left<S: Store>(limiter: &Limiter<S>) -> u64 {
        now(limiter.peek("k")).unwrap().remaining
    }

    #[test]
    fn what_was_too_much_comes_back_and_only_once() {
        each(|_, limiter| {
            let reserved = now(limiter.reserve("k", 40, 1000)).unwrap();
            assert_eq!(left(&limiter), 60, "{:?}", limiter.policy());
            let id = reserved.id.unwrap();
            let stands = now(limiter.settle_reserved("k", id, 15)).unwrap().unwrap();
            assert_eq!((stands.remaining, left(&limiter)), (85, 85), "{:?}", limiter.policy());
            assert_eq!(now(limiter.settle_reserved("k", id, 0)).unwrap(), None);
            assert_eq!(now(limiter.settle_reserved("k", id + 1, 0)).unwrap(), None, "never made");
            assert_eq!(left(&limiter), 85);
        });
    }

    #[test]
    fn a_cost_of_nothing_gives_all_back_and_the_same_cost_nothing() {
        each(|_, limiter| {
            let (a, b) =
                (now(limiter.reserve("k", 30, 1000)).unwrap(), now(limiter.reserve("k", 20, 1000)).unwrap());
            now(limiter.settle_reserved("k", a.id.unwrap(), 0)).unwrap().unwrap();
            now(limiter.settle_reserved("k", b.id.unwrap(), 20)).unwrap().unwrap();
            assert_eq!(left(&limiter), 80, "{:?}", limiter.policy());
        });
    }

    #[test]
    fn what_was_too_little_is_charged_even_beyond_the_limit_and_the_next_one_waits() {
        each(|clock, limiter| {
            let id = now(limiter.reserve("k", 90, 1000)).unwrap().id.unwrap();
            let stands = now(limiter.settle_reserved("k", id, 150)).unwrap().unwrap();
            assert_eq!((stands.allowed, stands.remaining), (false, 0), "{:?}", limiter.policy());
            assert!(!now(limiter.check("k", 1)).unwrap().allowed);
            clock.advance_ms(200_000_000);
            assert_eq!(left(&limiter), 100, "a debt is paid off: {:?}", limiter.policy());
        });
    }

    #[test]
    fn a_denied_estimate_reserves_nothing() {
        each(|_, limiter| {
            now(limiter.check("k", 90)).unwrap();
            // A shaper admits whatever the cost as long as its queue is short.
            if limiter.policy().kind() != "leakyBucket" {
                let reserved = now(limiter.reserve("k", 11, 1000)).unwrap();
                assert_eq!((reserved.decision.allowed, reserved.id), (false, None));
            }
            assert_eq!(left(&limiter), 10);
        });
    }

    #[test]
    fn a_reservation_that_is_not_settled_in_time_stands() {
        each(|clock, limiter| {
            let id = now(limiter.reserve("k", 40, 1000)).unwrap().id.unwrap();
            let before = left(&limiter);
            clock.advance_ms(1000);
            assert_eq!(now(limiter.settle_reserved("k", id, 0)).unwrap(), None);
            assert!(left(&limiter) <= before + 1, "{:?}", limiter.policy());
        });
    }

    /// What was replenished before it is settled is not given back, or others would be given what they have spent.
    #[test]
    fn a_late_settling_gives_back_only_what_is_still_owed() {
        each(|clock, limiter| {
            let id = now(limiter.reserve("k", 40, 500_000_000)).unwrap().id.unwrap();
            clock.advance_ms(200_000_000);
            assert!(now(limiter.check("k", 30)).unwrap().allowed);
            let stands = now(limiter.settle_reserved("k", id, 0)).unwrap().unwrap();
            assert_eq!((stands.remaining, left(&limiter)), (70, 70), "{:?}", limiter.policy());
        });
    }

    #[test]
    fn a_rate_gives_back_the_part_that_is_still_owed() {
        for policy in [POLICIES[0], POLICIES[1], POLICIES[6]] {
            let clock = ManualClock::at(Millis(1_700_000_000_000));
            let limiter = Limiter::new(Policy::from_json(policy).unwrap(), memory(&clock), Fail::Closed);
            let id = now(limiter.reserve("k", 40, 100_000)).unwrap().id.unwrap();
            // 25 of them are back; behind the rest stand 20 of somebody else.
            clock.advance_ms(25_000);
            assert!(now(limiter.check("k", 20)).unwrap().allowed);
            assert_eq!(left(&limiter), 65, "{policy}");
            now(limiter.settle_reserved("k", id, 10)).unwrap().unwrap();
            assert_eq!(left(&limiter), 80, "15 were still owed: {policy}");
        }
    }

    #[test]
    fn the_note_lives_where_the_limit_does() {
        for name in ["limit:a", "limit:{t}:a", "a{b", "x{}y"] {
            let limit = Key::new(name).unwrap();
            let note = note_key(&limit, 7).unwrap();
            // Braces that are no tag cannot be made one.
            if name != "x{}y" {
                assert_eq!(key::slot(note.as_bytes()), key::slot(limit.as_bytes()), "{note}");
            }
        }
    }

    #[test]
    fn what_cannot_be_reserved_is_refused() {
        let limiter = Limiter::in_memory(Policy::from_json(POLICIES[0]).unwrap(), Fail::Closed);
        for (cost, ttl_ms) in [(0, 1), (WHOLE_MAX + 1, 1), (1, 0), (1, SPAN_MS_MAX + 1)] {
            assert_eq!(now(limiter.reserve("k", cost, ttl_ms)).unwrap_err().code(), Code::BadRequest);
        }
        assert_eq!(now(limiter.settle_reserved("k", 1, WHOLE_MAX + 1)).unwrap_err().code(), Code::BadRequest);
        let leases = Policy::from_json(r#"{"kind":"concurrency","limit":1,"leaseMs":1000}"#).unwrap();
        let leases = Limiter::in_memory(leases, Fail::Closed);
        assert_eq!(now(leases.reserve("k", 1, 1000)).unwrap_err().code(), Code::Unsupported);
    }
}
