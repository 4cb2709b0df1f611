//! Costs that are known only afterwards: reserve an estimate, then settle the actual cost.
//!
//! For the tokens of a language model, the rows of a query or the bytes of a response, the limit must decide before the cost is
//! known. A reservation consumes the estimate. Settling refunds the difference if the estimate was too high, or charges it if it
//! was too low, even beyond the limit: the cost has occurred, and later requests wait for it.
//!
//! A reservation is a note under a key of its own, which is consumed exactly once. One that is never settled expires, and the
//! estimate remains consumed: a client that crashed in between has probably spent it.
//!
//! The reservations of one key share a ledger. It records which of them a reset has made void, and how many units of others were
//! refunded since: in a strategy that replenishes in order, such refunds bring the replenishment of a reservation forward.

mod notes;

use keystead_core::{Applies, Code, Error, Key, Millis, Result, Store, StoreExt};

use crate::bounds::{SPAN_MS_MAX, WHOLE_MAX};
use crate::decision::Decision;
use crate::limiter::{Limiter, together};
use crate::question::Question;
use crate::strategy::{AnyStrategy, Ask, Charge, Refund, with_strategy};

pub(crate) use notes::ledger_key;
use notes::{Book, Leave, Ledger, Note, Open, Take, note_key};

/// The result of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// Whether the estimate is allowed.
    pub decision: Decision,
    /// The instant of the decision.
    pub now: Millis,
    /// The id to settle with, if it is allowed.
    pub id: Option<u64>,
}

/// A reservation to be made. It owns its data, so it can be sent to where the keys are stored.
#[derive(Clone, Debug)]
pub struct Reserve {
    question: Question,
    note: Key,
    ledger: Key,
    id: u64,
    ttl_ms: u64,
}

/// A settlement to be made.
#[derive(Clone, Debug)]
pub struct Settle {
    question: Question,
    note: Key,
    ledger: Key,
    cost: u64,
}

impl Reserve {
    /// The keys that a job needs for it.
    #[must_use]
    pub fn keys(&self) -> [Key; 3] {
        [self.question.key.clone(), self.note.clone(), self.ledger.clone()]
    }

    /// Reserves, with exclusive access to the keys.
    ///
    /// # Errors
    /// The store's error.
    pub fn run(&self, held: &mut dyn Applies) -> Result<Reserved> {
        let (decision, now) = self.question.check(held)?;
        if decision.allowed {
            let ledger = held.apply(&self.ledger, &self.open())?;
            held.apply(&self.note, &self.leave(ledger, &decision, now))?;
        }
        Ok(self.reserved(decision, now))
    }

    /// The ledger is opened before the decision, so that no refund in between is missed, and the note is written after it: a crash in
    /// between leaves the estimate consumed.
    async fn run_in_turn<S: Store + ?Sized>(&self, store: &S) -> Result<Reserved> {
        let ledger = store.apply(&self.ledger, &self.open()).await?;
        let (decision, now) = self.question.check_on(store).await?;
        if decision.allowed {
            store.apply(&self.note, &self.leave(ledger, &decision, now)).await?;
        }
        Ok(self.reserved(decision, now))
    }

    fn open(&self) -> Open {
        Open { id: self.id, ttl_ms: self.ttl_ms }
    }

    fn leave(&self, ledger: Ledger, decision: &Decision, now: Millis) -> Leave {
        let spent = self.question.spent(decision, now);
        Leave { note: Note::new(ledger, spent), ttl_ms: self.ttl_ms }
    }

    fn reserved(&self, decision: Decision, now: Millis) -> Reserved {
        Reserved { decision, now, id: decision.allowed.then_some(self.id) }
    }
}

impl Settle {
    /// The keys that a job needs for it.
    #[must_use]
    pub fn keys(&self) -> [Key; 3] {
        [self.question.key.clone(), self.note.clone(), self.ledger.clone()]
    }

    /// Settles, with exclusive access to the keys. Returns the state of the limit afterwards, or `None` if the reservation was
    /// already settled, has expired, or never existed.
    ///
    /// # Errors
    /// The store's error.
    pub fn run(&self, held: &mut dyn Applies) -> Result<Option<(Decision, Millis)>> {
        let Some(note) = held.apply(&self.note, &Take)? else { return Ok(None) };
        let ledger = held.apply(&self.ledger, &self.book(&note))?;
        with_strategy!(self.question.strategy, strategy => {
            match self.change(strategy, &note, ledger) {
                Owed::Nothing => {}
                Owed::Back(refund) => held.apply(&self.question.key, &refund)?,
                Owed::More(charge) => drop(held.apply(&self.question.key, &charge)?),
            }
        });
        self.question.peek(held).map(Some)
    }

    /// The note is deleted first, so that nothing is refunded twice.
    async fn run_in_turn<S: Store + ?Sized>(&self, store: &S) -> Result<Option<(Decision, Millis)>> {
        let Some(note) = store.apply(&self.note, &Take).await? else { return Ok(None) };
        let ledger = store.apply(&self.ledger, &self.book(&note)).await?;
        with_strategy!(self.question.strategy, strategy => {
            match self.change(strategy, &note, ledger) {
                Owed::Nothing => {}
                Owed::Back(refund) => store.apply(&self.question.key, &refund).await?,
                Owed::More(charge) => drop(store.apply(&self.question.key, &charge).await?),
            }
        });
        self.question.peek_on(store).await.map(Some)
    }

    fn book(&self, note: &Note) -> Book {
        Book { epoch: note.epoch, given_back: note.cost.saturating_sub(self.cost) }
    }

    /// The change to the limit. With another ledger the key was reset in between, and the reservation is void.
    fn change<S>(&self, strategy: S, note: &Note, ledger: Option<Ledger>) -> Owed<S> {
        let Some(ledger) = ledger else { return Owed::Nothing };
        let spent = note.spent(ledger);
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
    /// use keystead_limit::{FailMode, Limiter};
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    /// # runtime.block_on(async {
    /// let tokens = Limiter::in_memory(TokenBucket::new(10_000, 1.0)?, FailMode::Closed);
    /// let reserved = tokens.reserve("ada", 4_000, 60_000).await?;
    /// let Some(id) = reserved.id else { panic!("{:?}", reserved.decision) };
    /// // ... and the response took only 1,500 tokens:
    /// let now = tokens.settle_reserved("ada", id, 1_500).await?.unwrap();
    /// assert_eq!(now.remaining, 8_500);
    /// assert!(tokens.settle_reserved("ada", id, 1_500).await?.is_none(), "once");
    /// # Ok::<(), keystead_core::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// `unsupported` for a `concurrency` policy, which has leases instead of units; else as [`check`](Limiter::check).
    pub async fn reserve(&self, key: impl AsRef<[u8]>, cost: u64, ttl_ms: u64) -> Result<Reserved> {
        let reserve = self.reserving(key, cost, ttl_ms)?;
        let job = reserve.clone();
        let result = match together(self.store(), &reserve.keys(), move |held| job.run(held)).await {
            Err(error) if error.code() == Code::Unsupported => reserve.run_in_turn(self.store()).await,
            result => result,
        };
        let id = result.as_ref().ok().and_then(|reserved| reserved.id);
        let (decision, now) = self.settled(result.map(|reserved| (reserved.decision, reserved.now)))?;
        Ok(Reserved { decision, now, id })
    }

    /// Settles a reservation at its actual cost, 0 or more. Returns the state of the limit afterwards, or `None` if it was already
    /// settled, has expired, or never existed.
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
        let result = match together(self.store(), &settle.keys(), move |held| job.run(held)).await {
            Err(error) if error.code() == Code::Unsupported => settle.run_in_turn(self.store()).await,
            result => result,
        };
        Ok(result?.map(|(decision, _)| decision))
    }

    /// A reservation of this limiter, to be made where the keys are stored.
    ///
    /// # Errors
    /// `unsupported` for a `concurrency` policy, `bad_request` or `too_large` for invalid arguments.
    pub fn reserving(&self, key: impl AsRef<[u8]>, cost: u64, ttl_ms: u64) -> Result<Reserve> {
        if !(1..=SPAN_MS_MAX).contains(&ttl_ms) {
            let message = format!("a reservation lives from 1 to {SPAN_MS_MAX} milliseconds, not {ttl_ms}");
            return Err(Error::new(Code::BadRequest, message));
        }
        let (question, id) = (self.for_units(key, cost)?, self.next_id());
        let (note, ledger) = (note_key(&question.key, id)?, ledger_key(&question.key)?);
        Ok(Reserve { note, ledger, question, id, ttl_ms })
    }

    /// A settlement of this limiter, to be made where the keys are stored.
    ///
    /// # Errors
    /// As [`reserving`](Limiter::reserving).
    pub fn settling(&self, key: impl AsRef<[u8]>, id: u64, cost: u64) -> Result<Settle> {
        if cost > WHOLE_MAX {
            let message = format!("cost must be a whole number from 0 to {WHOLE_MAX}, not {cost}");
            return Err(Error::new(Code::BadRequest, message));
        }
        let question = self.for_units(key, 1)?;
        let (note, ledger) = (note_key(&question.key, id)?, ledger_key(&question.key)?);
        Ok(Settle { note, ledger, question, cost })
    }

    fn for_units(&self, key: impl AsRef<[u8]>, cost: u64) -> Result<Question> {
        if matches!(self.policy().strategy(), AnyStrategy::Concurrency(_)) {
            let message = "a concurrency policy has leases, not units: acquire and release them";
            return Err(Error::new(Code::Unsupported, message));
        }
        self.question(key, cost)
    }
}

#[cfg(test)]
mod tests;
