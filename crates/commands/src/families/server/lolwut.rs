//! `LOLWUT [VERSION version] [argument ...]`

use crate::args::Args;
use crate::conn::Conn;
use crate::errors::CommandResult;
use crate::reply::Reply;

const HOUSE: &str = r"
            ( )
             )
        ____||___________
       /    ||          /\
      /________________/  \
      |   _    ___    |  _ |
      |  |_|  |   |   | |_||
      |_______|_._|___|____|

 a home for keyed state";

pub(super) fn lolwut(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    // Redis has a drawing for each version, and requires a number.
    if args.len() > 2 && args.at(1).eq_ignore_ascii_case(b"version") {
        args.int(2)?;
    }
    let version = conn.hub.host.facts().version;
    Ok(Reply::Verbatim(format!("{HOUSE}\n\nKeystead ver. {version}\n")))
}

#[cfg(test)]
mod tests {
    use super::super::save::tests::Durability;
    use crate::testing::Desk;

    #[test]
    fn there_is_a_house() {
        let mut desk = Desk::at(Box::new(Durability("fsync")));
        assert!(desk.resp("LOLWUT VERSION 5 1 2 3").ends_with("Keystead ver. 0.1.0"));
        desk.expect(&[("LOLWUT VERSION x", "-ERR value is not an integer or out of range")]);
    }
}
