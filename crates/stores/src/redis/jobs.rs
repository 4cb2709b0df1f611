//! Jobs on several keys as one script: they are on one server, or in one slot of a cluster.

use std::any::Any;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, PoisonError, RwLock};

use keystead_core::{Code, Commit, Error, JobScript, Key, Millis, Result, Script};

use super::replies::Replies;
use super::steps::{RECORD, add_time};
use super::wire::{Prepared, Wire};
use crate::bounds::{JOB_SCRIPTS_MAX, RECLAIM_SLACK_MS};

/// The script around the steps of a job.
const FRAME: &str = include_str!("job.lua");

/// Prepared scripts of jobs, by the addresses of the sources of their steps, in ascending order.
#[derive(Default)]
pub(super) struct Jobs(RwLock<HashMap<Vec<usize>, Arc<Prepared>>>);

impl Jobs {
    /// Runs a job. `unsupported`, and nothing has changed, if its keys are not on one server.
    pub(super) async fn run(
        &self,
        wire: &Wire,
        keys: &[Key],
        job: JobScript,
        now: Option<Millis>,
    ) -> Result<Box<dyn Any + Send>> {
        let keys: Vec<&Key> = keys.iter().collect();
        if keys.len() != job.steps.len() || !wire.is_one_place(&keys) {
            return Err(unsupported());
        }
        let mut kinds: Vec<&Script> = job.steps.iter().map(|(script, _)| script).collect();
        kinds.sort_unstable_by_key(|script| place(script));
        kinds.dedup_by_key(|script| place(script));
        let prepared = self.prepared(&kinds).ok_or_else(unsupported)?;
        let reply = wire.eval(&keys, &prepared, |command| {
            add_time(command, now);
            command.arg(match job.commit {
                Commit::IfAll => "all",
                Commit::IfAny => "any",
            });
            for (script, idle) in &job.steps {
                // Lua counts from one.
                command.arg(1 + kinds.partition_point(|kind| place(kind) < place(script)));
                command.arg(script.args.len());
                for arg in script.args.iter().chain(idle) {
                    command.arg(arg.to_string());
                }
            }
        });
        let replies = match reply.await {
            Err(failure) if failure.is("CROSSSLOT") => return Err(unsupported()),
            Err(failure) if failure.is("PARTIAL") => {
                let message = "the server rejected a part of a script, and has run the others";
                return Err(Error::unknown(Code::StoreUnavailable, message));
            }
            reply => Replies::of(reply?)?,
        };
        let replies = replies.all().collect::<Result<Vec<_>>>()?;
        (job.reply)(&replies)
    }

    /// `None` if there are too many of them: the server holds each, too.
    fn prepared(&self, kinds: &[&Script]) -> Option<Arc<Prepared>> {
        let places: Vec<usize> = kinds.iter().map(|script| place(script)).collect();
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&places).cloned();
        if known.is_some() {
            return known;
        }
        let mut scripts = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if scripts.len() >= JOB_SCRIPTS_MAX {
            return None;
        }
        Some(Arc::clone(scripts.entry(places).or_insert_with(|| Arc::new(Prepared::new(text(kinds))))))
    }
}

fn text(kinds: &[&Script]) -> String {
    let mut text = RECORD.replace("SLACK_MS", &RECLAIM_SLACK_MS.to_string());
    text.push_str("local steps = {}\n");
    for (i, Script { library, source, .. }) in kinds.iter().enumerate() {
        let (number, source) = (i + 1, source.concat());
        // Writing to a string does not fail.
        let _ =
            write!(text, "do\n{library}\nsteps[{number}] = function(state, now, a)\n{source}\nend\nend\n");
    }
    text + FRAME
}

/// Sources are compared by their addresses.
fn place(script: &Script) -> usize {
    script.source.as_ptr() as usize
}

pub(super) fn unsupported() -> Error {
    let message = "this job, or these keys, cannot be run as one on this server";
    Error::new(Code::Unsupported, message)
}
