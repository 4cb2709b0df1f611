//! `SELECT index`: there is one database, 0.

use crate::args::Args;
use crate::conn::Conn;
use crate::errors::{self, CommandResult};
use crate::reply::Reply;

pub(super) fn select(_: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    match args.int(1)? {
        0 => Ok(Reply::Ok),
        index if i32::try_from(index).is_ok() => Err(errors::DB_INDEX),
        _ => Err(errors::NOT_INT_32),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn there_is_one_database() {
        Desk::new().expect(&[
            ("SELECT 0", "+OK"),
            ("SELECT 1", "-ERR DB index is out of range"),
            ("SELECT -1", "-ERR DB index is out of range"),
            ("SELECT x", "-ERR value is not an integer or out of range"),
            (
                "SELECT 9999999999",
                "-ERR value is out of range, value must between -2147483648 and 2147483647",
            ),
        ]);
    }
}
