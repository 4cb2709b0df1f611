//! Sets: members without an order, each once.

mod add;
mod algebra;
mod combine;
mod inter_card;
mod members;
mod move_member;
mod pop;
mod random_member;
mod scan;

use crate::keys_of::Keys;
use crate::spec::Spec;
use crate::spec::flag::{READ, READ_FAST, WHOLE, WRITE_FAST, WRITE_OOM, WRITE_OOM_FAST, and};

pub(crate) const TABLE: &[Spec] = &[
    Spec::data("SADD", "sadd", -3, WRITE_OOM_FAST, Keys::At(1), add::sadd).doc(
        "key member [member ...]",
        "Adds members and counts the new ones.",
        "1.0.0",
    ),
    Spec::data("SREM", "srem", -3, WRITE_FAST, Keys::At(1), add::srem).doc(
        "key member [member ...]",
        "Removes members.",
        "1.0.0",
    ),
    Spec::data("SISMEMBER", "sismember", 3, READ_FAST, Keys::At(1), members::sismember).doc(
        "key member",
        "Tells whether this is a member.",
        "1.0.0",
    ),
    Spec::data("SMISMEMBER", "smismember", -3, READ_FAST, Keys::At(1), members::smismember).doc(
        "key member [member ...]",
        "Tells of each whether it is a member.",
        "6.2.0",
    ),
    Spec::data("SCARD", "scard", 2, READ_FAST, Keys::At(1), members::scard).doc(
        "key",
        "Counts the members.",
        "1.0.0",
    ),
    Spec::data("SMEMBERS", "smembers", 2, READ, Keys::At(1), members::smembers).doc(
        "key",
        "Gives all members.",
        "1.0.0",
    ),
    Spec::data("SPOP", "spop", -2, WRITE_FAST, Keys::At(1), pop::run).doc(
        "key [count]",
        "Gives random members and removes them.",
        "1.0.0",
    ),
    Spec::data("SRANDMEMBER", "srandmember", -2, READ, Keys::At(1), random_member::run).doc(
        "key [count]",
        "Gives random members.",
        "1.0.0",
    ),
    Spec::data("SMOVE", "smove", 4, WRITE_FAST, Keys::Two(1, 2), move_member::run).doc(
        "source destination member",
        "Moves a member to another set.",
        "1.0.0",
    ),
    Spec::data("SINTER", "sinter", -2, and(READ, WHOLE), Keys::From(1), combine::sinter).doc(
        "key [key ...]",
        "Gives the members that all sets have.",
        "1.0.0",
    ),
    Spec::data("SINTERCARD", "sintercard", -3, and(READ, WHOLE), Keys::Counted(1), inter_card::run).doc(
        "numkeys key [key ...] [LIMIT limit]",
        "Counts the members that all sets have.",
        "7.0.0",
    ),
    Spec::data("SINTERSTORE", "sinterstore", -3, and(WRITE_OOM, WHOLE), Keys::From(1), combine::sinterstore)
        .doc("destination key [key ...]", "Stores the members that all sets have.", "1.0.0"),
    Spec::data("SUNION", "sunion", -2, and(READ, WHOLE), Keys::From(1), combine::sunion).doc(
        "key [key ...]",
        "Gives the members of all sets.",
        "1.0.0",
    ),
    Spec::data("SUNIONSTORE", "sunionstore", -3, and(WRITE_OOM, WHOLE), Keys::From(1), combine::sunionstore)
        .doc("destination key [key ...]", "Stores the members of all sets.", "1.0.0"),
    Spec::data("SDIFF", "sdiff", -2, and(READ, WHOLE), Keys::From(1), combine::sdiff).doc(
        "key [key ...]",
        "Gives the members of the first set that no other has.",
        "1.0.0",
    ),
    Spec::data("SDIFFSTORE", "sdiffstore", -3, and(WRITE_OOM, WHOLE), Keys::From(1), combine::sdiffstore)
        .doc("destination key [key ...]", "Stores the members of the first set that no other has.", "1.0.0"),
    Spec::data("SSCAN", "sscan", -3, READ, Keys::At(1), scan::run).doc(
        "key cursor [MATCH pattern] [COUNT count]",
        "Walks the members, some at a time.",
        "2.8.0",
    ),
];
