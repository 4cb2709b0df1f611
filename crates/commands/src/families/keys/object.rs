//! `OBJECT ENCODING key`, `OBJECT FREQ key`, `OBJECT IDLETIME key`, `OBJECT REFCOUNT key`, `OBJECT HELP`

use super::encoding;
use crate::errors::Fail;
use crate::keys_of::Keys;
use crate::spec::Spec;
use crate::spec::flag::{NONE, READ};
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) const TABLE: &[Spec] = &[
    Spec::data("object|encoding", 3, READ, Keys::At(2), encoding).doc(
        "key",
        "Returns the internal encoding that Redis would use for the value of a key.",
        "2.2.3",
    ),
    Spec::data("object|freq", 3, READ, Keys::At(2), freq).doc(
        "key",
        "Returns an error for a key that exists: access frequencies are not tracked.",
        "4.0.0",
    ),
    Spec::data("object|idletime", 3, READ, Keys::At(2), idletime).doc(
        "key",
        "Returns 0 for a key that exists: the time of the last access is not tracked.",
        "2.2.3",
    ),
    Spec::data("object|refcount", 3, READ, Keys::At(2), refcount).doc(
        "key",
        "Returns 1 for a key that exists: values are not shared between keys.",
        "2.2.3",
    ),
    Spec::data("object|help", 2, NONE, Keys::None, help).doc(
        "",
        "Returns a list of the subcommands of OBJECT.",
        "6.2.0",
    ),
];

const NO_LFU: &str = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when \
    switching between policies at runtime LRU and LFU data will take some time to adjust.";

const HELP: &[&str] = &[
    "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "ENCODING <key>",
    "    Return the kind of internal representation used in order to store the value",
    "    associated with a <key>.",
    "FREQ <key>",
    "    Return the access frequency index of the <key>. The returned integer is",
    "    proportional to the logarithm of the recent access frequency of the key.",
    "IDLETIME <key>",
    "    Return the idle time of the <key>, that is the approximated number of",
    "    seconds elapsed since the last access to the key.",
    "REFCOUNT <key>",
    "    Return the number of references of the value associated with the specified",
    "    <key>.",
    "HELP",
    "    Prints this help.",
];

fn encoding(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let value = ctx.keys.value(args.at(2), ctx.now)?;
    Ok(value.map_or(Reply::Nil, |value| Reply::bulk(encoding::name(value).as_bytes())))
}

fn freq(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    if ctx.keys.exists(args.at(2), ctx.now)? { Err(Fail::Text(NO_LFU.into())) } else { Ok(Reply::Nil) }
}

fn idletime(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    Ok(if ctx.keys.exists(args.at(2), ctx.now)? { Reply::Int(0) } else { Reply::Nil })
}

fn refcount(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    Ok(if ctx.keys.exists(args.at(2), ctx.now)? { Reply::Int(1) } else { Reply::Nil })
}

fn help(_: &mut Ctx<'_>, _: Args<'_>) -> CommandResult {
    Ok(Reply::Array(HELP.iter().map(|line| Reply::status(line)).collect()))
}

#[cfg(test)]
mod tests {
    use keystead_model::Bytes;
    use keystead_model::keyspace::Expire;

    use crate::testing::Desk;

    #[test]
    fn objects_are_described() {
        let mut desk = Desk::new();
        for (key, value) in [("n", "5"), ("t", "text")] {
            let value = Bytes::from(value.as_bytes());
            desk.keys.set_str(key.as_bytes(), value, Expire::Keep, desk.now).unwrap();
        }
        let no_lfu = format!("-{}", super::NO_LFU);
        desk.expect(&[
            ("OBJECT ENCODING x", "$-1"),
            ("OBJECT ENCODING n", "$3 int"),
            ("OBJECT ENCODING t", "$6 embstr"),
            ("OBJECT FREQ x", "$-1"),
            ("OBJECT FREQ n", &no_lfu),
            ("OBJECT IDLETIME x", "$-1"),
            ("OBJECT IDLETIME n", ":0"),
            ("OBJECT REFCOUNT x", "$-1"),
            ("OBJECT REFCOUNT n", ":1"),
            ("OBJECT foo", "-ERR unknown subcommand 'foo'. Try OBJECT HELP."),
            ("OBJECT ENCODING", "-ERR wrong number of arguments for 'object|encoding' command"),
        ]);
        assert!(desk.resp("OBJECT HELP").starts_with("*15 +OBJECT <subcommand>"));
    }
}
