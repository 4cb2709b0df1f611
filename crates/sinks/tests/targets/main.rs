//! What every target must do, on the real server: the same cases for each of them, each in a database of its own.

#![allow(clippy::unwrap_used, reason = "a test")]

mod cases;
mod crashes;
mod faults;
mod log;
mod mariadb;
mod nats;
mod target;
mod webhook;

/// A test for each case on a target.
macro_rules! on {
    ($target:ident: $($case:ident)+) => {
        mod $target {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    if let Some(target) = crate::target::$target().await {
                        crate::cases::$case(&target).await;
                    }
                }
            )+
        }
    };
}

macro_rules! all {
    ($($target:ident)+) => {
        $(on! { $target:
            rows_and_position_arrive_together
            a_late_or_repeated_batch_changes_nothing
            a_row_of_a_later_batch_is_kept
            more_rows_than_a_statement_takes
            only_changed_fields_are_written
            deletes_and_tombstones
            a_rejected_row_is_named_and_keeps_the_batch_out
            many_rejected_rows
            fields_are_typed_columns
            differences_are_found
            keys_are_listed
            rows_are_shown
            a_layout_that_does_not_fit_is_rejected
            two_sinks_share_a_target
            events_and_position_arrive_together
            any_state_of_the_window_is_rebuilt
            pages_of_a_log_are_bounded_and_only_of_a_prefix
            a_rejected_event_is_repaired_in_its_place
            what_is_old_or_many_is_compacted
        })+
    };
}

all! { postgres sqlite mysql }
