//! `POST /limit`: a check of several policies, and a write in the same atomic step. Touches the keyspace it is given.
//!
//! ```json
//! {"rule":"all","checks":[{"policy":"user","key":"ada"},{"policy":"everybody","key":"all","cost":2}],
//!  "then":{"commands":[["LPUSH","jobs","1"]]}}
//! ```
//!
//! All policies decide first, and only if the rule admits the request is anything consumed or written.

use keystead_commands::ctx::{Dialect, Publication};
use keystead_commands::errors::Fail;
use keystead_commands::hub::Hub;
use keystead_commands::json::document;
use keystead_commands::session::Queued;
use keystead_commands::spec::{Run, flag};
use keystead_commands::transaction::run_queue;
use keystead_commands::wire::json::{self as wire, Strings};
use keystead_commands::{Command, Ctx, Random, Reply as RedisReply, Spec};
use keystead_core::{Millis, ShardId};
use keystead_limit::bounds::COMBINED_MAX;
use keystead_limit::{Decision, Question, Rule};
use keystead_model::keyspace::{Held, Keyspace};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{params, response};
use crate::bounds::THEN_MAX;
use crate::error::ApiError;
use crate::kv::batch::{self, Operation};
use crate::upstash::body;
use crate::written::{self, KeyText, Object};

/// An example of the body.
pub const FORM: &str = r#"{"checks":[{"policy":"user","key":"ada"},{"policy":"all","key":"all"}]}"#;

/// The body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Body<'a> {
    #[serde(default)]
    rule: Word,
    /// The checks.
    #[serde(borrow)]
    pub checks: Vec<Object<One<'a>>>,
    /// What is written then.
    #[serde(borrow, default)]
    pub then: Option<Object<ThenText<'a>>>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    #[default]
    All,
    Any,
}

/// A check.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct One<'a> {
    /// The name of the policy.
    pub policy: String,
    /// The key.
    #[serde(borrow)]
    pub key: KeyText<'a>,
    /// What it costs.
    #[serde(default = "params::one", deserialize_with = "written::whole")]
    pub cost: u64,
}

/// Writes, as text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThenText<'a> {
    #[serde(borrow, default)]
    commands: Option<&'a RawValue>,
    #[serde(borrow, default)]
    operations: Option<&'a RawValue>,
}

/// What is written if the rule admits the request.
pub enum Then {
    /// Nothing.
    Nothing,
    /// Commands.
    Commands(Vec<Queued>),
    /// Changes of documents.
    Operations(Vec<Operation>),
}

impl Body<'_> {
    /// When the request is admitted.
    #[must_use]
    pub fn rule(&self) -> Rule {
        match self.rule {
            Word::All => Rule::All,
            Word::Any => Rule::Any,
        }
    }

    /// Checks that there are as many checks as may be.
    ///
    /// # Errors
    /// When there are none, or too many.
    pub fn check_count(&self) -> Result<(), ApiError> {
        let count = self.checks.len();
        match (1..=COMBINED_MAX).contains(&count) {
            true => Ok(()),
            false => Err(ApiError::bad(format!("there are 1 to {COMBINED_MAX} checks, not {count}"))),
        }
    }
}

/// Its result.
pub struct CombinedResult {
    /// The decision of each check.
    pub decisions: Vec<Decision>,
    /// Their instant.
    pub now: Millis,
    /// The results of the writes, as JSON.
    pub results: Option<Vec<String>>,
    /// What is published when it is durable.
    pub publish: Vec<Publication>,
}

/// The text of the response, with the binding decision and its position.
///
/// # Errors
/// When there are no checks.
pub fn text(
    rule: Rule,
    names: &[&str],
    result: &CombinedResult,
) -> Result<(usize, Decision, String), ApiError> {
    let Some((position, binding)) = rule.binding(&result.decisions) else {
        return Err(ApiError::bad("there are no checks"));
    };
    let mut parts = Vec::with_capacity(names.len());
    for (name, decision) in names.iter().zip(&result.decisions) {
        parts.push(response::text(decision, &[("policy", json!(name))])?);
    }
    let mut text = response::text(&binding, &[("policy", json!(names[position]))])?;
    text.truncate(text.len() - 1);
    text.push_str(&format!(",\"decisions\":[{}]", parts.join(",")));
    if let Some(results) = &result.results {
        text.push_str(&format!(",\"results\":[{}]", results.join(",")));
    }
    text.push('}');
    Ok((position, binding, text))
}

/// The writes, checked as far as possible without running them. `spec_of` is the row of a command that may run; `may_change` whether
/// documents can be changed.
///
/// # Errors
/// What is wrong, and with which of them.
pub fn then(
    text: Option<&ThenText<'_>>,
    spec_of: impl Fn(&Command) -> Result<&'static Spec, Fail>,
    may_change: impl FnOnce() -> Result<(), ApiError>,
) -> Result<Then, ApiError> {
    let many =
        || ApiError::TooLarge(format!("at most {THEN_MAX} commands or operations can follow a decision"));
    match text {
        None => Ok(Then::Nothing),
        Some(ThenText { commands: Some(text), operations: None }) => {
            let commands = body::commands(text.get().as_bytes())
                .map_err(|error| ApiError::bad(format!("\"commands\": {}", error.0)))?;
            if commands.len() > THEN_MAX {
                return Err(many());
            }
            let queued = |(n, command)| match spec_of(&command) {
                Ok(spec) if spec.flags.has(flag::NO_MULTI) || !matches!(spec.run, Run::Data(_)) => {
                    let name = spec.full_name;
                    Err(batch::at(n, ApiError::bad(format!("the command '{name}' cannot follow a decision"))))
                }
                Ok(spec) => Ok(Queued { spec, command }),
                Err(fail) => Err(batch::at(n, command_error(fail))),
            };
            commands.into_iter().enumerate().map(queued).collect::<Result<_, _>>().map(Then::Commands)
        }
        Some(ThenText { commands: None, operations: Some(text) }) => {
            may_change()?;
            let tree = document::parse(text.get().as_bytes())
                .map_err(|flaw| ApiError::flaw("\"operations\"", &flaw))?;
            let Value::Array(operations) = tree else {
                return Err(ApiError::bad("\"operations\" is an array"));
            };
            if operations.len() > THEN_MAX {
                return Err(many());
            }
            let read = |(n, one)| batch::operation(one).map_err(|error| batch::at(n, error));
            operations.into_iter().enumerate().map(read).collect::<Result<_, _>>().map(Then::Operations)
        }
        Some(_) => Err(ApiError::bad("\"then\" has either \"commands\" or \"operations\"")),
    }
}

/// The error of a command in the form of this API.
fn command_error(fail: Fail) -> ApiError {
    match fail {
        Fail::Broken(error) => ApiError::Broken(error),
        fail => {
            let line = fail.line();
            match line.starts_with("WRONGTYPE") {
                true => ApiError::WrongType("the key holds a value of another type"),
                false => ApiError::bad(line),
            }
        }
    }
}

/// Decides, and writes if the rule admits the request: as one step on keys of one shard.
///
/// # Errors
/// Why nothing was changed.
pub fn run(
    keyspace: &mut Keyspace,
    now: Millis,
    rule: Rule,
    questions: &[Question],
    then: &Then,
    (shard, random, hub): (ShardId, &mut Random, &Hub),
    bytes_max: usize,
) -> Result<CombinedResult, ApiError> {
    let decisions = rule.check(questions, &mut Held { keyspace, now })?;
    let mut result = CombinedResult { decisions, now, results: None, publish: Vec::new() };
    if !rule.admits(&result.decisions) {
        return Ok(result);
    }
    let mut results = Vec::new();
    match then {
        Then::Nothing => return Ok(result),
        Then::Operations(operations) => {
            for (n, operation) in operations.iter().enumerate() {
                results.push(batch::one(operation, keyspace, now).map_err(|error| batch::at(n, error))?);
            }
        }
        Then::Commands(queue) => {
            let ctx = Ctx { shard, dialect: Dialect::Upstash, ..Ctx::new(keyspace, now, random, hub) };
            let (replies, publish) = run_queue(queue, ctx, bytes_max).map_err(command_error)?;
            for (n, reply) in replies.into_iter().enumerate() {
                match reply.unwrap_or(RedisReply::Nil) {
                    RedisReply::Error(fail) => return Err(batch::at(n, command_error(fail))),
                    reply => results.push(encoded(&reply)),
                }
            }
            result.publish = publish;
        }
    }
    if results.iter().map(String::len).sum::<usize>() > bytes_max {
        return Err(ApiError::TooLarge(format!("the response is over {bytes_max} bytes")));
    }
    result.results = Some(results);
    Ok(result)
}

fn encoded(reply: &RedisReply) -> String {
    let mut out = Vec::new();
    wire::encode(reply, Strings::Plain, &mut out);
    // The encoder writes text.
    String::from_utf8(out).unwrap_or_default()
}
