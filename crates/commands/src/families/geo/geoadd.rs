//! GEOADD key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]

use super::unit;
use crate::args::Args;
use crate::ctx::Ctx;
use crate::errors::{self, CommandResult};
use crate::families::zsets::zadd::{Mode, add};

pub(super) fn geoadd(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let mut cursor = args.cursor(2);
    let mut mode = Mode::default();
    while mode.accept(&mut cursor) {}
    if cursor.is_done() || !cursor.left().is_multiple_of(3) || (mode.nx && mode.xx) {
        return Err(errors::SYNTAX);
    }
    let mut members = Vec::with_capacity(cursor.left() / 3);
    while let (Some(lon), Some(lat), Some(member)) = (cursor.next(), cursor.next(), cursor.next()) {
        members.push((unit::point(lon, lat)?.score(), member));
    }
    add(ctx, args.at(1), mode, &members)
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn members_get_the_scores_of_their_coordinates() {
        Desk::new().expect(&[
            ("GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania", ":2"),
            ("ZSCORE g Palermo", "$16 3479099956230698"),
            ("ZSCORE g Catania", "$16 3479447370796909"),
            ("GEOADD g CH 13 38 Palermo 15 37 Syracuse", ":2"),
            ("GEOADD g NX CH 0 0 Palermo", ":0"),
            ("GEOADD g xx ch 0 0 Palermo 1 1 Other", ":1"),
            ("ZCARD g", ":3"),
        ]);
    }

    #[test]
    fn all_offsets_are_checked_before_the_key() {
        Desk::new().expect(&[
            ("SET s x", "+OK"),
            ("GEOADD s NX XX 1 1 a", "-ERR syntax error"),
            ("GEOADD s 1 2 a 3", "-ERR syntax error"),
            ("GEOADD s NX CH CH", "-ERR syntax error"),
            ("GEOADD s 1 2 a x 2 b", "-ERR value is not a valid float"),
            ("GEOADD s 181 2 a", "-ERR invalid longitude,latitude pair 181.000000,2.000000"),
            ("GEOADD s 1 2 a 1 -inf b", "-ERR invalid longitude,latitude pair 1.000000,-inf"),
            ("GEOADD s 1 2 a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }
}
