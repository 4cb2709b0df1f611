//! Several limits as one: all of them, or any. All limits decide first; only then is anything consumed.
//!
//! On a store that can run steps [together](keystead_core::Together) the combination is atomic, on Redis as one script. On any other store the limits are
//! checked in turn after all of them would allow it; if a concurrent request makes one of them deny, what the others consumed is
//! refunded. Either way a denied combination consumes nothing.

use std::any::Any;
use std::collections::HashSet;
use std::sync::Arc;

use keystead_core::{
    Applies, Clock, Code, Commit, Error, JobScript, Key, Result, ScriptReply, Store, StoreExt, SystemClock,
};

use crate::bounds::COMBINED_MAX;
use crate::client::HiddenKeys;
use crate::decision::Decision;
use crate::fail_mode::{FailMode, is_broken, open_decision};
use crate::lease::LeaseIds;
use crate::limiter::{ask, store_key};
use crate::policy::{Policy, check::invalid};
use crate::question::Question;
use crate::strategy::{AnyStrategy, Release, Spent};

/// When a combination allows a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// If every limit does.
    All,
    /// If at least one limit does. Units are consumed from those that do.
    Any,
}

/// Several limits on one store.
///
/// ```
/// use keystead_core::MemoryStore;
/// use keystead_limit::strategy::{Gcra, Quota, Cadence};
/// use keystead_limit::{Combined, FailMode, Policy};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # runtime.block_on(async {
/// let pace = Policy::from(Gcra::new(10, 1000, None)?).named("pace")?;
/// let month = Policy::from(Quota::new(2, Cadence::CalendarMonth, 0)?).named("month")?;
/// let limits = Combined::all(&[pace, month], MemoryStore::new(), FailMode::Closed)?;
///
/// assert!(limits.check("ada", 2).await?.decision.allowed);
/// let denied = limits.check("ada", 1).await?;
/// assert_eq!((denied.decision.allowed, denied.name.as_str()), (false, "month"));
/// # Ok::<(), keystead_core::Error>(())
/// # }).unwrap();
/// ```
pub struct Combined<S> {
    store: S,
    rule: Rule,
    limits: Vec<Limit>,
    fail: FailMode,
    hidden: Option<HiddenKeys>,
    clock: Arc<dyn Clock>,
    ids: LeaseIds,
}

struct Limit {
    name: String,
    prefix: Vec<u8>,
    strategy: AnyStrategy,
}

/// The result of a combination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Combination {
    /// The binding decision: of those that count, the one with the fewest remaining units if allowed, with the longest wait if
    /// denied. Its delay is the longest of all.
    pub decision: Decision,
    /// The name of that limit.
    pub name: String,
    /// The decision of each limit, in their order.
    pub parts: Vec<Decision>,
}

impl Combination {
    /// The JSON form of the binding decision with one more field: `policy`, the name of the limit.
    ///
    /// # Errors
    /// `internal`, which does not happen: every field is a whole number or text.
    pub fn to_json(&self) -> Result<String> {
        let mut text = self.decision.to_json()?;
        let name = serde_json::to_string(&self.name)
            .map_err(|e| Error::new(Code::Internal, "a name has no JSON form").with_source(e))?;
        text.truncate(text.len() - 1);
        Ok(format!("{text},\"policy\":{name}}}"))
    }
}

impl<S: Store> Combined<S> {
    /// Allows a request if every limit does.
    ///
    /// # Errors
    /// `config_invalid` when there is no limit, too many, or two of the same name.
    pub fn all(limits: &[Policy], store: S, fail: FailMode) -> Result<Self> {
        Combined::new(Rule::All, limits, store, fail)
    }

    /// Allows a request if at least one limit does.
    ///
    /// # Errors
    /// As [`all`](Combined::all).
    pub fn any(limits: &[Policy], store: S, fail: FailMode) -> Result<Self> {
        Combined::new(Rule::Any, limits, store, fail)
    }

    /// A limit without a name is called by its index. If one of them fails closed, all do.
    fn new(rule: Rule, policies: &[Policy], store: S, fail: FailMode) -> Result<Self> {
        if policies.is_empty() || policies.len() > COMBINED_MAX {
            let count = policies.len();
            return invalid(format!("a combination has from 1 to {COMBINED_MAX} limits, not {count}"));
        }
        let mut limits: Vec<Limit> = Vec::with_capacity(policies.len());
        for (place, policy) in policies.iter().enumerate() {
            let name = policy.name().map_or_else(|| place.to_string(), str::to_string);
            if limits.iter().any(|limit| limit.name == name) {
                return invalid(format!("two limits of a combination are called '{name}'"));
            }
            limits.push(Limit { prefix: join("limit", &name), name, strategy: *policy.strategy() });
        }
        let fails = policies.iter().map(|policy| policy.fail().unwrap_or(fail));
        let fail = if fails.into_iter().all(|fail| fail == FailMode::Open) {
            FailMode::Open
        } else {
            FailMode::Closed
        };
        let (clock, ids) = (Arc::new(SystemClock), LeaseIds::default());
        Ok(Combined { store, rule, limits, fail, hidden: None, clock, ids })
    }

    /// The prefix of every key, before the name of its limit (default `limit`).
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        for limit in &mut self.limits {
            limit.prefix = join(prefix, &limit.name);
        }
        self
    }

    /// Stores only a keyed hash of every key.
    #[must_use]
    pub fn hide_keys(mut self, hidden: HiddenKeys) -> Self {
        self.hidden = Some(hidden);
        self
    }

    /// The clock that is read when the store has failed (default: the system's clock).
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Checks all limits with the same key.
    ///
    /// # Errors
    /// As [`Limiter::check`](crate::Limiter::check).
    pub async fn check(&self, key: impl AsRef<[u8]>, cost: u64) -> Result<Combination> {
        self.check_each(&vec![key.as_ref(); self.limits.len()], cost).await
    }

    /// Checks each limit with a key of its own, in their order: the user for one, the address for another.
    ///
    /// # Errors
    /// `bad_request` if there are not as many keys as limits, else as [`Limiter::check`](crate::Limiter::check).
    pub async fn check_each<K: AsRef<[u8]>>(&self, keys: &[K], cost: u64) -> Result<Combination> {
        let questions = self.questions(keys, cost)?;
        match self.rule.check_on(&questions, &self.store).await {
            Ok(decisions) => Ok(self.combination(decisions)),
            Err(error) if is_broken(&error) && self.fail == FailMode::Open => {
                let now = self.clock.now().0;
                let open = |limit: &Limit| open_decision(limit.strategy.limit(), now);
                Ok(self.combination(self.limits.iter().map(open).collect()))
            }
            Err(error) => Err(error),
        }
    }

    /// Releases the leases of `concurrency` limits in `combination`.
    ///
    /// # Errors
    /// As [`check_each`](Combined::check_each); a lease that could not be released expires.
    pub async fn release_each<K: AsRef<[u8]>>(&self, keys: &[K], combination: &Combination) -> Result<()> {
        for (question, decision) in self.questions(keys, 1)?.iter().zip(&combination.parts) {
            if let Some(lease_id) = decision.lease_id {
                self.store.apply(&question.key, &Release { lease_id }).await?;
            }
        }
        Ok(())
    }

    fn questions<K: AsRef<[u8]>>(&self, keys: &[K], cost: u64) -> Result<Vec<Question>> {
        if keys.len() != self.limits.len() {
            let message = format!("this combination needs {} keys, not {}", self.limits.len(), keys.len());
            return Err(Error::new(Code::BadRequest, message));
        }
        let question = |(limit, key): (&Limit, &K)| {
            let lease_id = self.ids.next();
            let key = store_key(&limit.prefix, self.hidden.as_ref(), key.as_ref())?;
            Ok(Question { strategy: limit.strategy, key, ask: ask(cost, lease_id)?, at: None })
        };
        self.limits.iter().zip(keys).map(question).collect()
    }

    fn combination(&self, parts: Vec<Decision>) -> Combination {
        // There is at least one limit.
        let (place, decision) = self.rule.binding(&parts).unwrap_or((0, open_decision(0, 0)));
        Combination { decision, name: self.limits[place].name.clone(), parts }
    }
}

impl Rule {
    /// Whether a combination of these decisions allows the request.
    #[must_use]
    pub fn admits(self, parts: &[Decision]) -> bool {
        match self {
            Rule::All => parts.iter().all(|part| part.allowed),
            Rule::Any => parts.iter().any(|part| part.allowed),
        }
    }

    /// Decides all questions first, and consumes only if the rule allows it, with exclusive access to the keys.
    ///
    /// # Errors
    /// `bad_request` for two questions about one key of the store, which cannot be decided separately; or the store's error.
    pub fn check(self, questions: &[Question], held: &mut dyn Applies) -> Result<Vec<Decision>> {
        distinct(questions.iter())?;
        let mut decisions = Vec::with_capacity(questions.len());
        for question in questions {
            decisions.push(question.forecast(held)?);
        }
        if !self.admits(&decisions) {
            // Those that would have allowed it have consumed nothing either.
            for (question, part) in questions.iter().zip(&mut decisions).filter(|(_, part)| part.allowed) {
                (*part, _) = question.peek(held)?;
            }
            return Ok(decisions);
        }
        for (question, decision) in questions.iter().zip(&mut decisions).filter(|(_, part)| part.allowed) {
            (*decision, _) = question.check(held)?;
        }
        Ok(decisions)
    }

    /// The same on a store: as one atomic job if the store can, else [in turn](Rule::check_in_turn).
    ///
    /// # Errors
    /// As [`check`](Rule::check).
    pub async fn check_on<S: Store + ?Sized>(
        self,
        questions: &[Question],
        store: &S,
    ) -> Result<Vec<Decision>> {
        let keys: Vec<Key> = questions.iter().map(|question| question.key.clone()).collect();
        let (job, script) = (questions.to_vec(), self.script(questions));
        let ran = match store.together() {
            Some(store) => store.apply_together_as(&keys, move |held| self.check(&job, held), script).await,
            None => Err(Error::new(Code::Unsupported, "this store runs one step at a time")),
        };
        match ran {
            Err(error) if error.code() == Code::Unsupported => {
                let pairs: Vec<_> = questions.iter().map(|question| (question, store)).collect();
                self.check_in_turn(&pairs).await
            }
            result => result,
        }
    }

    /// [`check`](Rule::check) as a script, if every question has one.
    fn script(self, questions: &[Question]) -> Option<JobScript> {
        // Two questions about one key are rejected, and an instant that several share is not for a script.
        if distinct(questions.iter()).is_err() || questions.iter().any(|question| question.at.is_some()) {
            return None;
        }
        let steps = questions.iter().map(Question::script).collect::<Option<_>>()?;
        let commit = match self {
            Rule::All => Commit::IfAll,
            Rule::Any => Commit::IfAny,
        };
        let questions = questions.to_vec();
        let reply = move |replies: &[ScriptReply<'_>]| {
            let decided =
                questions.iter().zip(replies).map(|(question, reply)| question.script_decision(reply));
            let mut decisions: Vec<Decision> = decided.collect::<Option<_>>().ok_or_else(no_decision)?;
            if !self.admits(&decisions) {
                decisions.iter_mut().for_each(|decision| decision.lease_id = None);
            }
            Ok(Box::new(decisions) as Box<dyn Any + Send>)
        };
        Some(JobScript { steps, commit, reply: Box::new(reply) })
    }

    /// Decides all questions first and then consumes, each on its own store. Refunds what was consumed if a concurrent request makes
    /// one of them deny.
    ///
    /// # Errors
    /// As [`check`](Rule::check). What was consumed before the error is refunded; a future that is dropped half way refunds nothing.
    pub async fn check_in_turn<S: Store + ?Sized>(self, pairs: &[(&Question, &S)]) -> Result<Vec<Decision>> {
        distinct(pairs.iter().map(|(question, _)| *question))?;
        let mut decisions = Vec::with_capacity(pairs.len());
        for (question, store) in pairs {
            decisions.push(question.forecast_on(*store).await?);
        }
        if !self.admits(&decisions) {
            for ((question, store), part) in pairs.iter().zip(&mut decisions).filter(|(_, part)| part.allowed)
            {
                (*part, _) = question.peek_on(*store).await?;
            }
            return Ok(decisions);
        }
        let mut consumed = Vec::with_capacity(pairs.len());
        for ((question, store), decision) in pairs.iter().zip(&mut decisions).filter(|(_, part)| part.allowed)
        {
            match question.check_on(*store).await {
                Ok((result, at)) => {
                    *decision = result;
                    if result.allowed {
                        consumed.push((*question, *store, question.spent(&result, at)));
                    }
                }
                Err(error) => {
                    refund_all(&consumed).await;
                    return Err(error);
                }
            }
            if self == Rule::All && !decision.allowed {
                refund_all(&consumed).await;
                decisions.iter_mut().for_each(|decision| decision.lease_id = None);
                break;
            }
        }
        Ok(decisions)
    }

    /// The binding decision and its index, see [`Combination`]; `None` without decisions.
    #[must_use]
    pub fn binding(self, parts: &[Decision]) -> Option<(usize, Decision)> {
        let allowed = self.admits(parts);
        let counts = parts.iter().enumerate().filter(|(_, part)| part.allowed == allowed);
        let binding = match allowed {
            true => counts.min_by_key(|(_, part)| part.remaining),
            // The first of equal ones, as above.
            false => counts.rev().max_by_key(|(_, part)| part.retry_after_ms),
        };
        let delay_ms =
            parts.iter().filter(|part| part.allowed && allowed).filter_map(|part| part.delay_ms).max();
        // `None` only without parts: the result always equals that of at least one part.
        binding.map(|(place, part)| (place, Decision { delay_ms, ..*part }))
    }
}

fn no_decision() -> Error {
    Error::unknown(Code::Internal, "a script returned no decision")
}

/// Rejects two questions about one key: each could be allowed alone, but not both.
fn distinct<'a>(questions: impl Iterator<Item = &'a Question>) -> Result<()> {
    let mut keys = HashSet::new();
    match questions.into_iter().find(|question| !keys.insert(&question.key)) {
        Some(twice) => {
            let message = format!("{} is checked twice: check it once, with the cost of both", twice.key);
            Err(Error::new(Code::BadRequest, message))
        }
        None => Ok(()),
    }
}

/// A store that fails here keeps what was consumed: too few requests are allowed, never too many.
async fn refund_all<S: Store + ?Sized>(consumed: &[(&Question, &S, Spent)]) {
    for (question, store, spent) in consumed {
        let _ = question.refund_on(*store, *spent).await;
    }
}

fn join(prefix: &str, name: &str) -> Vec<u8> {
    match prefix.is_empty() {
        true => name.as_bytes().to_vec(),
        false => format!("{prefix}:{name}").into_bytes(),
    }
}

#[cfg(test)]
mod tests;
