//! `MEMORY USAGE key [SAMPLES count]`, `MEMORY STATS`, `MEMORY DOCTOR`, `MEMORY MALLOC-STATS`, `MEMORY PURGE`, `MEMORY HELP`

use crate::errors::{self, Fail};
use crate::keys_of::Keys;
use crate::spec::Spec;
use crate::spec::flag::{NONE, READ};
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) const TABLE: &[Spec] = &[
    Spec::data("memory|usage", -3, READ, Keys::At(2), usage).doc(
        "key [SAMPLES count]",
        "Returns the number of bytes that a key and its value use in memory.",
        "4.0.0",
    ),
    Spec::data("memory|stats", 2, NONE, Keys::None, stats).doc(
        "",
        "Returns statistics about the memory usage of the server.",
        "4.0.0",
    ),
    Spec::data("memory|doctor", 2, NONE, Keys::None, doctor).doc(
        "",
        "Reports whether the memory limit is reached and values are evicted to disk.",
        "4.0.0",
    ),
    Spec::data("memory|malloc-stats", 2, NONE, Keys::None, malloc_stats).doc(
        "",
        "Returns a notice: statistics of the allocator are not available.",
        "4.0.0",
    ),
    Spec::data("memory|purge", 2, NONE, Keys::None, purge).doc(
        "",
        "Returns memory that is not in use to the system. The allocator does that by itself, too, within ten seconds.",
        "4.0.0",
    ),
    Spec::data("memory|help", 2, NONE, Keys::None, help).doc(
        "",
        "Returns a list of the subcommands of MEMORY.",
        "4.0.0",
    ),
];

const NO_PURGE: Fail = Fail::fixed("ERR Error purging dirty pages");

const HELP: &[&str] = &[
    "MEMORY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "DOCTOR",
    "    Return memory problems reports.",
    "MALLOC-STATS",
    "    Return internal statistics report from the memory allocator.",
    "PURGE",
    "    Attempt to purge dirty pages for reclamation by the allocator.",
    "STATS",
    "    Return information about the memory usage of the server.",
    "USAGE <key> [SAMPLES <count>]",
    "    Return memory in bytes used by <key> and its value. Nested values are",
    "    sampled up to <count> times (default: 5, 0 means sample all).",
    "HELP",
    "    Prints this help.",
];

/// Every value knows its size, so no samples are taken.
fn usage(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let mut options = args.cursor(3);
    while !options.is_done() {
        if !options.accept_with("SAMPLES", 1) || options.int()? < 0 {
            return Err(errors::SYNTAX);
        }
    }
    let bytes = ctx.keys.mem_bytes_of(args.at(2), ctx.now)?;
    Ok(bytes.map_or(Reply::Nil, Reply::count))
}

fn stats(ctx: &mut Ctx<'_>, _: Args<'_>) -> CommandResult {
    let facts = ctx.hub.host.facts();
    let int = |value: u64| Reply::Int(i64::try_from(value).unwrap_or(i64::MAX));
    let ratio = |of: u64, to: u64| Reply::Double(if to == 0 { 0.0 } else { of as f64 / to as f64 });
    let rows = [
        ("total.allocated", int(facts.used_bytes)),
        ("keys.count", int(facts.keys)),
        ("keys.bytes-per-key", int(facts.used_bytes.checked_div(facts.keys).unwrap_or(0))),
        ("dataset.bytes", int(facts.used_bytes)),
        ("allocator.resident", int(facts.resident_bytes)),
        ("fragmentation", ratio(facts.resident_bytes, facts.used_bytes)),
        ("fragmentation.bytes", int(facts.resident_bytes.saturating_sub(facts.used_bytes))),
    ];
    Ok(Reply::Map(rows.into_iter().map(|(name, value)| (Reply::bulk(name.as_bytes()), value)).collect()))
}

fn doctor(ctx: &mut Ctx<'_>, _: Args<'_>) -> CommandResult {
    let facts = ctx.hub.host.facts();
    let text = match facts.limit_bytes {
        Some(_) if facts.memory_full => {
            "The names of keys alone have reached the memory limit: commands that could add memory are rejected."
        }
        Some(limit) if facts.used_bytes >= limit => {
            "Keys and values have reached the memory limit: values that are not used are evicted to disk and read on access."
        }
        _ => "All keys and values fit into memory.",
    };
    Ok(Reply::Verbatim(text.into()))
}

fn malloc_stats(_: &mut Ctx<'_>, _: Args<'_>) -> CommandResult {
    Ok(Reply::text("Stats not supported for the current allocator"))
}

fn purge(ctx: &mut Ctx<'_>, _: Args<'_>) -> CommandResult {
    if ctx.hub.host.purge_memory() { Ok(Reply::Ok) } else { Err(NO_PURGE) }
}

fn help(_: &mut Ctx<'_>, _: Args<'_>) -> CommandResult {
    Ok(Reply::Array(HELP.iter().map(|line| Reply::status(line)).collect()))
}

#[cfg(test)]
mod tests {
    use crate::Reply;
    use crate::testing::Desk;

    #[test]
    fn the_usage_of_a_key_is_returned() {
        let mut desk = Desk::in_memory();
        desk.expect(&[
            ("MEMORY USAGE a", "$-1"),
            ("SADD a m", ":1"),
            ("MEMORY USAGE a SAMPLES -1", "-ERR syntax error"),
            ("MEMORY USAGE a SAMPLES x", "-ERR value is not an integer or out of range"),
            ("MEMORY USAGE a SAMPLES", "-ERR syntax error"),
            ("MEMORY USAGE a FOO", "-ERR syntax error"),
        ]);
        let used = desk.keys.used_bytes();
        assert_eq!(desk.run("MEMORY USAGE a"), Reply::count(used));
        assert_eq!(desk.run("MEMORY USAGE a SAMPLES 0 SAMPLES 5"), Reply::count(used));
    }

    #[test]
    fn the_other_subcommands_reply_in_their_types() {
        let mut desk = Desk::new();
        assert!(matches!(desk.run("MEMORY STATS"), Reply::Map(_)));
        assert!(matches!(desk.run("MEMORY DOCTOR"), Reply::Verbatim(_)));
        assert!(matches!(desk.run("MEMORY MALLOC-STATS"), Reply::Bulk(_)));
        assert_eq!(desk.resp("MEMORY PURGE"), "-ERR Error purging dirty pages", "no allocator here");
        assert!(desk.resp("MEMORY HELP").starts_with("*14 +MEMORY <subcommand>"));
    }
}
