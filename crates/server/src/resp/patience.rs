//! How much may wait for a client that reads slowly, and for how long. It touches a timer.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use keystead_commands::hub::OutputLimit;
use tokio::time::{Sleep, sleep};

use crate::bounds::hard_bytes;

/// What a server has with one reader.
#[derive(Default)]
pub(super) struct Patience {
    /// Ends when more than the soft limit has waited for too long.
    soft_end: Option<Pin<Box<Sleep>>>,
}

impl Patience {
    /// Whether too much waits, or has for too long; wakes when the time is up.
    pub(super) fn is_over(&mut self, waiting_bytes: usize, limit: OutputLimit, cx: &mut Context<'_>) -> bool {
        if waiting_bytes > hard_bytes(limit) {
            return true;
        }
        if limit.soft_bytes == 0 || waiting_bytes as u64 <= limit.soft_bytes {
            self.soft_end = None;
            return false;
        }
        let end = self.soft_end.get_or_insert_with(|| Box::pin(sleep(Duration::from_secs(limit.soft_s))));
        end.as_mut().poll(cx).is_ready()
    }
}
