//! `CLIENT TRACKING <ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]`
//! `CLIENT TRACKINGINFO`, `CLIENT GETREDIR`, `CLIENT CACHING <YES | NO>`
//!
//! Client-side caching is not supported, so tracking is always off.

use crate::args::Args;
use crate::conn::Conn;
use crate::errors::{self, CommandResult, Fail};
use crate::reply::Reply;

const NOT_SUPPORTED: Fail =
    Fail::fixed("ERR CLIENT TRACKING is not supported: Keystead sends no invalidation messages");
const NOT_TRACKING: Fail = Fail::fixed(
    "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
);

pub(super) fn tracking(_: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    let mut options = args.cursor(3);
    while !options.is_done() {
        let known = ["BCAST", "OPTIN", "OPTOUT", "NOLOOP"].iter().any(|option| options.accept(option));
        if options.accept_with("REDIRECT", 1) {
            options.int()?;
        } else if options.accept_with("PREFIX", 1) {
            options.bytes()?;
        } else if !known {
            return Err(errors::SYNTAX);
        }
    }
    match args.at(2).to_ascii_lowercase().as_slice() {
        b"on" => Err(NOT_SUPPORTED),
        b"off" => Ok(Reply::Ok),
        _ => Err(errors::SYNTAX),
    }
}

pub(super) fn trackinginfo(_: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    let text = |text: &'static str| Reply::bulk(text.as_bytes());
    Ok(Reply::Map(vec![
        (text("flags"), Reply::Set(vec![text("off")])),
        (text("redirect"), Reply::Int(-1)),
        (text("prefixes"), Reply::Array(Vec::new())),
    ]))
}

pub(super) fn getredir(_: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    Ok(Reply::Int(-1))
}

pub(super) fn caching(_: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    Err(NOT_TRACKING)
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn tracking_is_off() {
        Desk::new().expect(&[
            ("CLIENT TRACKING OFF", "+OK"),
            ("CLIENT TRACKING OFF BCAST", "+OK"),
            ("CLIENT TRACKING foo", "-ERR syntax error"),
            ("CLIENT TRACKING ON foo", "-ERR syntax error"),
            ("CLIENT TRACKING ON PREFIX", "-ERR syntax error"),
            (
                "CLIENT TRACKING ON BCAST PREFIX a NOLOOP",
                "-ERR CLIENT TRACKING is not supported: Keystead sends no invalidation messages",
            ),
            ("CLIENT GETREDIR", ":-1"),
            ("CLIENT TRACKINGINFO", "*6 $5 flags *1 $3 off $8 redirect :-1 $8 prefixes *0"),
            (
                "CLIENT CACHING yes",
                "-ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
            ),
        ]);
    }
}
