//! Geospatial indexes in sorted sets: the table of this family.

mod cell;
mod geoadd;
mod query;
mod read;
mod search;
mod shape;
mod unit;

use crate::keys_of::Keys;
use crate::spec::Spec;
use crate::spec::flag::*;

pub(crate) const TABLE: &[Spec] = &[
    Spec::data("geoadd", -5, WRITE_OOM, Keys::At(1), geoadd::geoadd).doc(
        "key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]",
        "Adds members to a geospatial index or updates their coordinates. The index is a sorted set.",
        "3.2.0",
    ),
    Spec::data("geopos", -2, READ, Keys::At(1), read::geopos).doc(
        "key [member [member ...]]",
        "Returns the longitude and latitude of members of a geospatial index.",
        "3.2.0",
    ),
    Spec::data("geodist", -4, READ, Keys::At(1), read::geodist).doc(
        "key member1 member2 [M | KM | FT | MI]",
        "Returns the distance between two members of a geospatial index.",
        "3.2.0",
    ),
    Spec::data("geohash", -2, READ, Keys::At(1), read::geohash).doc(
        "key [member [member ...]]",
        "Returns the coordinates of members of a geospatial index as standard geohash strings.",
        "3.2.0",
    ),
    Spec::data("geosearch", -7, READ, Keys::At(1), search::geosearch).doc(
        "key <FROMMEMBER member | FROMLONLAT longitude latitude> <BYRADIUS radius <M | KM | FT | MI> \
         | BYBOX width height <M | KM | FT | MI>> [ASC | DESC] [COUNT count [ANY]] [WITHCOORD] \
         [WITHDIST] [WITHHASH]",
        "Returns the members of a geospatial index inside a circle or a box.",
        "6.2.0",
    ),
    Spec::data("geosearchstore", -8, WRITE_OOM, Keys::Two(1, 2), search::geosearchstore)
        .doc(
            "destination source <FROMMEMBER member | FROMLONLAT longitude latitude> <BYRADIUS radius <M \
         | KM | FT | MI> | BYBOX width height <M | KM | FT | MI>> [ASC | DESC] [COUNT count [ANY]] \
         [STOREDIST]",
            "Stores the members of a geospatial index inside a circle or a box in a key.",
            "6.2.0",
        ),
    Spec::data("georadius", -6, WRITE_OOM, Keys::AndStored(6), search::georadius).doc(
        "key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT \
         count [ANY]] [ASC | DESC] [STORE key | STOREDIST key]",
        "Returns or stores the members of a geospatial index within a distance of a point. Deprecated in favour of GEOSEARCH and GEOSEARCHSTORE.",
        "3.2.0",
    ),
    Spec::data("georadius_ro", -6, READ, Keys::At(1), search::georadius_ro).doc(
        "key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT \
         count [ANY]] [ASC | DESC]",
        "Returns the members of a geospatial index within a distance of a point. Deprecated in favour of GEOSEARCH.",
        "3.2.10",
    ),
    Spec::data(
        "georadiusbymember",
        -5,
        WRITE_OOM,
        Keys::AndStored(5),
        search::georadiusbymember,
    )
    .doc(
        "key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] \
         [ASC | DESC] [STORE key | STOREDIST key]",
        "Returns or stores the members of a geospatial index within a distance of a member. Deprecated in favour of GEOSEARCH and GEOSEARCHSTORE.",
        "3.2.0",
    ),
    Spec::data(
        "georadiusbymember_ro",
        -5,
        READ,
        Keys::At(1),
        search::georadiusbymember_ro,
    )
    .doc(
        "key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] \
         [ASC | DESC]",
        "Returns the members of a geospatial index within a distance of a member. Deprecated in favour of GEOSEARCH.",
        "3.2.10",
    ),
];
