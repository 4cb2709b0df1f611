//! Closes a client that reads too slowly (`client-output-buffer-limit`). Touches a timer.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use keystead_commands::hub::OutputLimit;
use tokio::time::{Sleep, sleep};

use crate::bounds::hard_bytes;

/// The output limit of one client.
#[derive(Default)]
pub(crate) struct SlowReader {
    /// Ends when the output has been over the soft limit for too long.
    soft_end: Option<Pin<Box<Sleep>>>,
}

impl SlowReader {
    /// Whether the unsent output is over the hard limit, or has been over the soft limit for too long. Wakes the task when the time is up.
    pub(crate) fn is_over(&mut self, unsent_bytes: usize, limit: OutputLimit, cx: &mut Context<'_>) -> bool {
        if unsent_bytes > hard_bytes(limit) {
            return true;
        }
        if limit.soft_bytes == 0 || unsent_bytes as u64 <= limit.soft_bytes {
            self.soft_end = None;
            return false;
        }
        let end = self.soft_end.get_or_insert_with(|| Box::pin(sleep(Duration::from_secs(limit.soft_s))));
        end.as_mut().poll(cx).is_ready()
    }
}
