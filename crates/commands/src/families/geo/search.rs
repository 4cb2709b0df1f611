//! GEOSEARCH key <FROMMEMBER member | FROMLONLAT longitude latitude>
//!     <BYRADIUS radius <M | KM | FT | MI> | BYBOX width height <M | KM | FT | MI>> [ASC | DESC] [COUNT count [ANY]]
//!     [WITHCOORD] [WITHDIST] [WITHHASH]
//! GEOSEARCHSTORE destination source <FROMMEMBER member | FROMLONLAT longitude latitude>
//!     <BYRADIUS radius <M | KM | FT | MI> | BYBOX width height <M | KM | FT | MI>> [ASC | DESC] [COUNT count [ANY]]
//!     [STOREDIST]
//! GEORADIUS key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]]
//!     [ASC | DESC] [STORE key | STOREDIST key]
//! GEORADIUSBYMEMBER key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]]
//!     [ASC | DESC] [STORE key | STOREDIST key]
//! GEORADIUS_RO and GEORADIUSBYMEMBER_RO: the same without STORE and STOREDIST

use keystead_model::Bytes;
use keystead_model::value::ZSet;

use super::cell::Point;
use super::query::{Form, Order, Query, Storing};
use super::shape::Shape;
use super::unit;
use crate::args::Args;
use crate::ctx::Ctx;
use crate::errors::CommandResult;
use crate::families::zsets::store::store;
use crate::reply::Reply;

pub(super) fn geosearch(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    run(ctx, args, 1, Form::Search, Storing::Never)
}

pub(super) fn geosearchstore(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    run(ctx, args, 2, Form::Search, Storing::Always)
}

pub(super) fn georadius(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    run(ctx, args, 1, Form::Radius, Storing::ByOption)
}

pub(super) fn georadius_ro(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    run(ctx, args, 1, Form::Radius, Storing::Never)
}

pub(super) fn georadiusbymember(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    run(ctx, args, 1, Form::RadiusByMember, Storing::ByOption)
}

pub(super) fn georadiusbymember_ro(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    run(ctx, args, 1, Form::RadiusByMember, Storing::Never)
}

/// A member inside a shape.
struct Found<'k> {
    member: &'k [u8],
    score: f64,
    point: Point,
    /// The distance from the centre.
    distance_m: f64,
}

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, key_at: usize, form: Form, storing: Storing) -> CommandResult {
    let zset = ctx.keys.zset(args.at(key_at), ctx.now)?;
    let query = Query::parse(args, key_at, form, storing, zset)?;
    let found = match (zset, query.shape()) {
        (Some(zset), Some(shape)) => find(zset, &shape, &query),
        _ => Vec::new(),
    };
    let Some(destination) = query.store else {
        return Ok(Reply::Array(found.iter().map(|found| reply(found, &query)).collect()));
    };
    let mut result = ZSet::new();
    for found in &found {
        let score = if query.store_distance { found.distance_m / query.unit_m } else { found.score };
        result.insert(&Bytes::from(found.member), score);
    }
    store(ctx, destination, result)
}

fn find<'k>(zset: &'k ZSet, shape: &Shape, query: &Query<'_>) -> Vec<Found<'k>> {
    let most = query.count.unwrap_or(usize::MAX);
    let enough = if query.any { most } else { usize::MAX };
    let inside = shape.cells().into_iter().flat_map(|cell| {
        let scores = cell.scores();
        let first = zset.seek(|score, _| score < scores.start);
        zset.iter_from(first).take_while(move |(_, score)| *score < scores.end)
    });
    let found = inside.filter_map(|(member, score)| {
        let point = Point::of_score(score);
        Some(Found { member, score, point, distance_m: shape.distance_inside_m(point)? })
    });
    let mut found: Vec<Found<'k>> = found.take(enough).collect();
    let nearer = |a: &Found<'_>, b: &Found<'_>| a.distance_m.total_cmp(&b.distance_m);
    match query.order {
        Some(Order::Descending) => found.sort_by(|a, b| nearer(b, a)),
        Some(Order::Ascending) => found.sort_by(nearer),
        // If some are left out, the nearest ones are returned.
        None if query.count.is_some() && !query.any => found.sort_by(nearer),
        None => {}
    }
    found.truncate(most);
    found
}

fn reply(found: &Found<'_>, query: &Query<'_>) -> Reply {
    let member = Reply::bulk(found.member);
    if !(query.with_distance || query.with_hash || query.with_point) {
        return member;
    }
    let mut parts = vec![member];
    if query.with_distance {
        parts.push(unit::distance_reply(found.distance_m / query.unit_m));
    }
    if query.with_hash {
        parts.push(Reply::Int(found.score as i64));
    }
    if query.with_point {
        parts.push(unit::point_reply(found.point));
    }
    Reply::Array(parts)
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

    fn desk() -> Desk {
        let mut desk = Desk::new();
        desk.expect(&[
            ("GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania", ":2"),
            ("GEOADD g 12.758489 38.788135 edge1 17.241510 38.788135 edge2", ":2"),
            ("SET s x", "+OK"),
        ]);
        desk
    }

    #[test]
    fn circles_and_boxes_are_searched() {
        desk().expect(&[
            ("GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km ASC", "*2 $7 Catania $7 Palermo"),
            ("GEOSEARCH g FROMMEMBER Catania BYRADIUS 200000 m DESC", "*2 $7 Palermo $7 Catania"),
            (
                "GEOSEARCH g FROMLONLAT 15 37 BYBOX 400 400 km ASC WITHCOORD WITHDIST",
                "*4 *3 $7 Catania $7 56.4413 *2 $20 15.08726745843887329 $20 37.50266842333162032 \
                 *3 $7 Palermo $8 190.4424 *2 $20 13.36138933897018433 $20 38.11555639549629859 \
                 *3 $5 edge2 $8 279.7403 *2 $20 17.24151045083999634 $20 38.78813451624225195 \
                 *3 $5 edge1 $8 279.7405 *2 $19 12.7584877610206604 $20 38.78813451624225195",
            ),
            (
                "GEORADIUS g 15 37 200 km WITHHASH ASC",
                "*2 *2 $7 Catania :3479447370796909 *2 $7 Palermo :3479099956230698",
            ),
            ("GEORADIUS_RO g 15 37 200 km COUNT 1", "*1 $7 Catania"),
            ("GEORADIUSBYMEMBER g Palermo 100 km", "*2 $7 Palermo $5 edge1"),
            ("GEORADIUSBYMEMBER_RO g Palermo 0 m", "*1 $7 Palermo"),
            ("GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 1000 km COUNT 2 ANY", "*2 $7 Palermo $5 edge1"),
            ("GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 1000 km COUNT 1 DESC", "*1 $5 edge1"),
            ("GEOSEARCH none FROMMEMBER a BYRADIUS 1 m", "*0"),
        ]);
    }

    #[test]
    fn results_are_stored() {
        desk().expect(&[
            ("GEOSEARCHSTORE s g FROMLONLAT 15 37 BYBOX 400 400 km ASC COUNT 3", ":3"),
            ("ZRANGE s 0 -1", "*3 $7 Palermo $7 Catania $5 edge2"),
            ("GEOSEARCHSTORE s g FROMLONLAT 15 37 BYRADIUS 200 km STOREDIST", ":2"),
            ("ZRANGE s 0 0 WITHSCORES", "*2 $7 Catania $16 56.4412578701582"),
            ("GEORADIUS g 15 37 200 km STOREDIST d STORE e", ":2"),
            ("EXISTS d", ":0"),
            ("ZSCORE e Palermo", "$16 3479099956230698"),
            ("GEORADIUSBYMEMBER g Palermo 1 km STOREDIST e", ":1"),
            ("ZSCORE e Palermo", "$1 0"),
            ("GEORADIUSBYMEMBER none x y z STORE e", ":0"),
            ("EXISTS e", ":0"),
            ("GEOSEARCHSTORE s g FROMLONLAT 0 0 BYRADIUS 1 m", ":0"),
            ("EXISTS s", ":0"),
        ]);
    }

    #[test]
    fn coordinates_and_shapes_are_checked_in_order() {
        desk().expect(&[
            ("GEOSEARCH s FROMMEMBER a BYRADIUS x m", WRONG_TYPE),
            ("GEORADIUS s x 1 1 m", WRONG_TYPE),
            ("GEORADIUS g x 1 1 m", "-ERR value is not a valid float"),
            ("GEORADIUS g 181 1 x m", "-ERR invalid longitude,latitude pair 181.000000,1.000000"),
            ("GEORADIUS g 1 1 x m", "-ERR need numeric radius"),
            ("GEORADIUS g 1 1 -1 yd", "-ERR radius cannot be negative"),
            ("GEORADIUS g 1 1 1 yd", "-ERR unsupported unit provided. please use M, KM, FT, MI"),
            ("GEORADIUSBYMEMBER g none x yd", "-ERR could not decode requested zset member"),
            ("GEOSEARCH g FROMMEMBER none BYRADIUS x m", "-ERR could not decode requested zset member"),
            ("GEOSEARCH none FROMMEMBER none BYRADIUS x m", "-ERR need numeric radius"),
            ("GEOSEARCH g FROMLONLAT 1 1 BYBOX x 1 m", "-ERR need numeric width"),
            ("GEOSEARCH g FROMLONLAT 1 1 BYBOX 1 x m", "-ERR need numeric height"),
            ("GEOSEARCH g FROMLONLAT 1 1 BYBOX 1 -1 m", "-ERR height or width cannot be negative"),
        ]);
    }

    #[test]
    fn options_are_checked_before_anything_is_found() {
        desk().expect(&[
            ("GEORADIUS_RO g 1 1 1 m STORE d", "-ERR syntax error"),
            ("GEORADIUS g 1 1 1 m STORE", "-ERR syntax error"),
            ("GEORADIUS g 1 1 1 m COUNT 0", "-ERR COUNT must be > 0"),
            ("GEORADIUS g 1 1 1 m COUNT x", "-ERR value is not an integer or out of range"),
            ("GEORADIUS g 1 1 1 m ANY", "-ERR the ANY argument requires COUNT argument"),
            (
                "GEORADIUS g 1 1 1 m WITHDIST STORE d",
                "-ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options",
            ),
            (
                "GEOSEARCHSTORE d g FROMLONLAT 1 1 BYRADIUS 1 m WITHHASH",
                "-ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options",
            ),
            ("GEOSEARCH g FROMLONLAT 1 1 FROMMEMBER Palermo BYRADIUS 1 m", "-ERR syntax error"),
            ("GEOSEARCH g FROMLONLAT 1 1 BYRADIUS 1 m BYBOX 1 1 m", "-ERR syntax error"),
            (
                "GEOSEARCH none BYRADIUS 1 m ASC ASC",
                "-ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for GEOSEARCH",
            ),
            (
                "geosearch none FROMLONLAT 1 1 ASC ASC",
                "-ERR exactly one of BYRADIUS and BYBOX can be specified for geosearch",
            ),
        ]);
    }
}
