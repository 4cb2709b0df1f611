//! `MOVE key db`: there is one database, number 0, so nothing can be moved.

use crate::errors;
use crate::{Answer, Args, Ctx};

pub(super) fn run(_: &mut Ctx<'_>, args: Args<'_>) -> Answer {
    Err(if args.int(2)? == 0 { errors::SAME_OBJECT } else { errors::DB_INDEX })
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn there_is_nowhere_to_move() {
        Desk::new().expect(&[
            ("MOVE a 0", "-ERR source and destination objects are the same"),
            ("MOVE a 1", "-ERR DB index is out of range"),
            ("MOVE a x", "-ERR value is not an integer or out of range"),
        ]);
    }
}
