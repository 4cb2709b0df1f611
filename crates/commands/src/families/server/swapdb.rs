//! `SWAPDB index1 index2`: there is one database, 0.

use crate::args::Args;
use crate::conn::Conn;
use crate::errors::{self, CommandResult, Fail};
use crate::number;
use crate::reply::Reply;

const FIRST: Fail = Fail::fixed("ERR invalid first DB index");
const SECOND: Fail = Fail::fixed("ERR invalid second DB index");

pub(super) fn swapdb(_: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    let index = |at| number::parse_int(args.at(at)).and_then(|index| i32::try_from(index).ok());
    match (index(1).ok_or(FIRST)?, index(2).ok_or(SECOND)?) {
        (0, 0) => Ok(Reply::Ok),
        _ => Err(errors::DB_INDEX),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn swapdb_accepts_only_0() {
        Desk::new().expect(&[
            ("SWAPDB 0 0", "+OK"),
            ("SWAPDB 0 1", "-ERR DB index is out of range"),
            ("SWAPDB a b", "-ERR invalid first DB index"),
            ("SWAPDB 0 b", "-ERR invalid second DB index"),
        ]);
    }
}
