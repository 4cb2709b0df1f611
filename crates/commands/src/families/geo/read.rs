//! GEOPOS key [member [member ...]]
//! GEODIST key member1 member2 [M | KM | FT | MI]
//! GEOHASH key [member [member ...]]

use keystead_model::value::ZSet;

use super::cell::{Cell, Point, STEP_MAX};
use super::shape::distance_m;
use super::unit;
use crate::args::Args;
use crate::ctx::Ctx;
use crate::errors::{self, CommandResult};
use crate::reply::Reply;

const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";

/// The standard extends to the poles.
const STANDARD_LAT_MAX: f64 = 90.0;

pub(super) fn geopos(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let zset = ctx.keys.zset(args.at(1), ctx.now)?;
    let points = args.from(2).map(|member| place(zset, member).map_or(Reply::NilArray, unit::point_reply));
    Ok(Reply::Array(points.collect()))
}

pub(super) fn geohash(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let zset = ctx.keys.zset(args.at(1), ctx.now)?;
    let hashes = args.from(2).map(|member| place(zset, member).map_or(Reply::Nil, standard));
    Ok(Reply::Array(hashes.collect()))
}

pub(super) fn geodist(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let unit_m = match args.len() {
        4 => 1.0,
        5 => unit::unit_m(args.at(4))?,
        _ => return Err(errors::SYNTAX),
    };
    let zset = ctx.keys.zset(args.at(1), ctx.now)?;
    Ok(match (place(zset, args.at(2)), place(zset, args.at(3))) {
        (Some(a), Some(b)) => unit::distance_reply(distance_m(a, b) / unit_m),
        _ => Reply::Nil,
    })
}

fn place(zset: Option<&ZSet>, member: &[u8]) -> Option<Point> {
    zset?.score(member).map(Point::of_score)
}

/// The standard geohash: eleven characters of five bits. There are not enough bits for the last one.
fn standard(point: Point) -> Reply {
    let bits = Cell::within(point, STEP_MAX, STANDARD_LAT_MAX).bits();
    let letter = |i: usize| if i == 10 { b'0' } else { ALPHABET[(bits >> (47 - 5 * i) & 31) as usize] };
    Reply::bulk(&std::array::from_fn::<u8, 11, _>(letter))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

    fn desk() -> Desk {
        let mut desk = Desk::new();
        desk.expect(&[
            ("GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania", ":2"),
            ("SET s x", "+OK"),
        ]);
        desk
    }

    #[test]
    fn positions_are_returned() {
        desk().expect(&[
            ("GEOPOS g Palermo none", "*2 *2 $20 13.36138933897018433 $20 38.11555639549629859 *-1"),
            ("GEOPOS none a", "*1 *-1"),
            ("GEOPOS g", "*0"),
            ("GEOPOS s a", WRONG_TYPE),
            ("GEOHASH g Palermo none Catania", "*3 $11 sqc8b49rny0 $-1 $11 sqdtr74hyu0"),
            ("GEOHASH none a", "*1 $-1"),
            ("GEOHASH s", WRONG_TYPE),
        ]);
    }

    #[test]
    fn distances_are_returned() {
        desk().expect(&[
            ("GEODIST g Palermo Catania", "$11 166274.1516"),
            ("GEODIST g Palermo Catania km", "$8 166.2742"),
            ("GEODIST g Palermo Catania MI", "$8 103.3182"),
            ("GEODIST g Palermo Palermo", "$6 0.0000"),
            ("GEODIST g Palermo none", "$-1"),
            ("GEODIST none a b", "$-1"),
            ("GEODIST s a b yd", "-ERR unsupported unit provided. please use M, KM, FT, MI"),
            ("GEODIST s a b m m", "-ERR syntax error"),
            ("GEODIST s a b", WRONG_TYPE),
        ]);
    }
}
