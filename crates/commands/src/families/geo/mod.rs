//! Places on the earth, in sorted sets: the table of this family.

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
    Spec::data("GEOADD", "geoadd", -5, WRITE_OOM, Keys::At(1), geoadd::run).doc(
        "key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]",
        "Sets the places of members, which become their scores.",
        "3.2.0",
    ),
    Spec::data("GEOPOS", "geopos", -2, READ, Keys::At(1), read::geopos).doc(
        "key [member [member ...]]",
        "Gives the longitudes and latitudes of members.",
        "3.2.0",
    ),
    Spec::data("GEODIST", "geodist", -4, READ, Keys::At(1), read::geodist).doc(
        "key member1 member2 [M | KM | FT | MI]",
        "Gives the distance between two members.",
        "3.2.0",
    ),
    Spec::data("GEOHASH", "geohash", -2, READ, Keys::At(1), read::geohash).doc(
        "key [member [member ...]]",
        "Gives the places of members as standard geohash texts.",
        "3.2.0",
    ),
    Spec::data("GEOSEARCH", "geosearch", -7, READ, Keys::At(1), search::geosearch).doc(
        "key <FROMMEMBER member | FROMLONLAT longitude latitude> <BYRADIUS radius <M | KM | FT | MI> \
         | BYBOX width height <M | KM | FT | MI>> [ASC | DESC] [COUNT count [ANY]] [WITHCOORD] \
         [WITHDIST] [WITHHASH]",
        "Gives the members inside of a circle or box.",
        "6.2.0",
    ),
    Spec::data("GEOSEARCHSTORE", "geosearchstore", -8, WRITE_OOM, Keys::Two(1, 2), search::geosearchstore)
        .doc(
            "destination source <FROMMEMBER member | FROMLONLAT longitude latitude> <BYRADIUS radius <M \
         | KM | FT | MI> | BYBOX width height <M | KM | FT | MI>> [ASC | DESC] [COUNT count [ANY]] \
         [STOREDIST]",
            "Keeps the members inside of a circle or box under another key.",
            "6.2.0",
        ),
    Spec::data("GEORADIUS", "georadius", -6, WRITE_OOM, Keys::AndStored(6), search::georadius).doc(
        "key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT \
         count [ANY]] [ASC | DESC] [STORE key | STOREDIST key]",
        "Gives or keeps the members inside of a circle around a point.",
        "3.2.0",
    ),
    Spec::data("GEORADIUS_RO", "georadius_ro", -6, READ, Keys::At(1), search::georadius_ro).doc(
        "key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT \
         count [ANY]] [ASC | DESC]",
        "Gives the members inside of a circle around a point.",
        "3.2.10",
    ),
    Spec::data(
        "GEORADIUSBYMEMBER",
        "georadiusbymember",
        -5,
        WRITE_OOM,
        Keys::AndStored(5),
        search::georadiusbymember,
    )
    .doc(
        "key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] \
         [ASC | DESC] [STORE key | STOREDIST key]",
        "Gives or keeps the members inside of a circle around a member.",
        "3.2.0",
    ),
    Spec::data(
        "GEORADIUSBYMEMBER_RO",
        "georadiusbymember_ro",
        -5,
        READ,
        Keys::At(1),
        search::georadiusbymember_ro,
    )
    .doc(
        "key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] \
         [ASC | DESC]",
        "Gives the members inside of a circle around a member.",
        "3.2.10",
    ),
];
