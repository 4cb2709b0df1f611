//! `MOVE key db`: there is one database, number 0, so nothing can be moved.

use crate::errors;
use crate::{Args, CommandResult, Ctx};

pub(super) fn move_(_: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let index = i32::try_from(args.int(2)?).map_err(|_| errors::NOT_INT_32)?;
    Err(if index == 0 { errors::SAME_OBJECT } else { errors::DB_INDEX })
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn move_is_an_error() {
        Desk::new().expect(&[
            ("MOVE a 0", "-ERR source and destination objects are the same"),
            ("MOVE a 1", "-ERR DB index is out of range"),
            (
                "MOVE a 2147483648",
                "-ERR value is out of range, value must between -2147483648 and 2147483647",
            ),
            ("MOVE a x", "-ERR value is not an integer or out of range"),
        ]);
    }
}
