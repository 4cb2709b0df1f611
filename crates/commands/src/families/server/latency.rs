//! `LATENCY LATEST`, `LATENCY HISTORY event`, `LATENCY RESET [event [event ...]]`, `LATENCY GRAPH event`
//! `LATENCY HISTOGRAM [command [command ...]]`, `LATENCY DOCTOR`
//!
//! No events are recorded: /metrics has the figures.

use crate::args::Args;
use crate::conn::Conn;
use crate::errors::{CommandResult, Fail};
use crate::families::server::RUNS;
use crate::help;
use crate::reply::Reply;
use crate::spec::Spec;
use crate::spec::flag::NONE;

pub(super) const TABLE: &[Spec] = &[
    Spec::conn("LATEST", "latency|latest", 2, RUNS, nothing).doc(
        "",
        "Gives the latest events: none.",
        "2.8.13",
    ),
    Spec::conn("HISTORY", "latency|history", 3, RUNS, nothing).doc(
        "event",
        "Gives the history of an event: none.",
        "2.8.13",
    ),
    Spec::conn("RESET", "latency|reset", -2, RUNS, reset).doc(
        "[event [event ...]]",
        "Forgets events: 0.",
        "2.8.13",
    ),
    Spec::conn("GRAPH", "latency|graph", 3, RUNS, graph).doc(
        "event",
        "Is refused: there is no event.",
        "2.8.13",
    ),
    Spec::conn("HISTOGRAM", "latency|histogram", -2, RUNS, histogram).doc(
        "[command [command ...]]",
        "Gives how long commands took: nothing is kept.",
        "7.0.0",
    ),
    Spec::conn("DOCTOR", "latency|doctor", 2, RUNS, doctor).doc("", "Says where to look instead.", "2.8.13"),
    Spec::conn("HELP", "latency|help", 2, NONE, help::conn).doc("", "Prints this help.", "2.8.13"),
];

fn nothing(_: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
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
        "Keystead records no latency events. GET /metrics on its HTTP door has figures.\n".into(),
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
