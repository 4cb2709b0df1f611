//! `LATENCY LATEST`, `LATENCY HISTORY event`, `LATENCY RESET [event [event ...]]`, `LATENCY GRAPH event`
//! `LATENCY HISTOGRAM [command [command ...]]`, `LATENCY DOCTOR`
//!
//! No events are recorded: /metrics has the statistics.

use crate::args::Args;
use crate::conn::Conn;
use crate::errors::{CommandResult, Fail};
use crate::families::server::ADMIN_FLAGS;
use crate::help;
use crate::reply::Reply;
use crate::spec::Spec;
use crate::spec::flag::NONE;

pub(super) const TABLE: &[Spec] = &[
    Spec::conn("latency|latest", 2, ADMIN_FLAGS, latest).doc(
        "",
        "Returns the latest latency events: always empty, as they are not recorded.",
        "2.8.13",
    ),
    Spec::conn("latency|history", 3, ADMIN_FLAGS, history).doc(
        "event",
        "Returns the history of a latency event: always empty.",
        "2.8.13",
    ),
    Spec::conn("latency|reset", -2, ADMIN_FLAGS, reset).doc(
        "[event [event ...]]",
        "Resets latency events and returns how many were reset: always 0.",
        "2.8.13",
    ),
    Spec::conn("latency|graph", 3, ADMIN_FLAGS, graph).doc(
        "event",
        "Always returns an error: no latency events are recorded.",
        "2.8.13",
    ),
    Spec::conn("latency|histogram", -2, ADMIN_FLAGS, histogram).doc(
        "[command [command ...]]",
        "Returns the latency distribution of commands: always empty.",
        "7.0.0",
    ),
    Spec::conn("latency|doctor", 2, ADMIN_FLAGS, doctor).doc(
        "",
        "Returns a notice that points to GET /metrics of the HTTP API.",
        "2.8.13",
    ),
    Spec::conn("latency|help", 2, NONE, help::help).doc(
        "",
        "Returns a list of the subcommands of LATENCY.",
        "2.8.13",
    ),
];

fn latest(_: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    Ok(Reply::Array(Vec::new()))
}

fn history(_: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    Ok(Reply::Array(Vec::new()))
}

fn reset(_: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    Ok(Reply::Int(0))
}

fn graph(_: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    let event = String::from_utf8_lossy(args.at(2));
    Err(Fail::text(format!("ERR No samples available for event '{event}'")))
}

fn histogram(_: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    Ok(Reply::Map(Vec::new()))
}

fn doctor(_: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    Ok(Reply::Verbatim(
        "Keystead records no latency events. GET /metrics of its HTTP API returns metrics.\n".into(),
    ))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn there_are_no_events() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("LATENCY LATEST", "*0"),
            ("LATENCY HISTORY command", "*0"),
            ("LATENCY RESET", ":0"),
            ("LATENCY RESET a b", ":0"),
            ("LATENCY HISTOGRAM", "*0"),
            ("LATENCY GRAPH foo", "-ERR No samples available for event 'foo'"),
        ]);
        assert!(desk.resp("LATENCY DOCTOR").contains("/metrics"));
    }
}
