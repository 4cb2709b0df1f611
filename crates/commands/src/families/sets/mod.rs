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
    Spec::data("sadd", -3, WRITE_OOM_FAST, Keys::At(1), add::sadd).doc(
        "key member [member ...]",
        "Adds one or more members to a set and returns how many are new. Creates the key if it does not exist.",
        "1.0.0",
    ),
    Spec::data("srem", -3, WRITE_FAST, Keys::At(1), add::srem).doc(
        "key member [member ...]",
        "Removes one or more members from a set. Deletes the set when no member remains.",
        "1.0.0",
    ),
    Spec::data("sismember", 3, READ_FAST, Keys::At(1), members::sismember).doc(
        "key member",
        "Returns whether a value is a member of a set.",
        "1.0.0",
    ),
    Spec::data("smismember", -3, READ_FAST, Keys::At(1), members::smismember).doc(
        "key member [member ...]",
        "Returns, for each of the given values, whether it is a member of a set.",
        "6.2.0",
    ),
    Spec::data("scard", 2, READ_FAST, Keys::At(1), members::scard).doc(
        "key",
        "Returns the number of members of a set.",
        "1.0.0",
    ),
    Spec::data("smembers", 2, READ, Keys::At(1), members::smembers).doc(
        "key",
        "Returns all members of a set.",
        "1.0.0",
    ),
    Spec::data("spop", -2, WRITE_FAST, Keys::At(1), pop::spop).doc(
        "key [count]",
        "Removes and returns one or more random members of a set.",
        "1.0.0",
    ),
    Spec::data("srandmember", -2, READ, Keys::At(1), random_member::srandmember).doc(
        "key [count]",
        "Returns one or more random members of a set.",
        "1.0.0",
    ),
    Spec::data("smove", 4, WRITE_FAST, Keys::Two(1, 2), move_member::smove).doc(
        "source destination member",
        "Moves a member from one set to another.",
        "1.0.0",
    ),
    Spec::data("sinter", -2, and(READ, WHOLE), Keys::From(1), combine::sinter).doc(
        "key [key ...]",
        "Returns the intersection of several sets.",
        "1.0.0",
    ),
    Spec::data("sintercard", -3, and(READ, WHOLE), Keys::Counted(1), inter_card::sintercard).doc(
        "numkeys key [key ...] [LIMIT limit]",
        "Returns the number of members of the intersection of several sets.",
        "7.0.0",
    ),
    Spec::data("sinterstore", -3, and(WRITE_OOM, WHOLE), Keys::From(1), combine::sinterstore)
        .doc("destination key [key ...]", "Stores the intersection of several sets in a key.", "1.0.0"),
    Spec::data("sunion", -2, and(READ, WHOLE), Keys::From(1), combine::sunion).doc(
        "key [key ...]",
        "Returns the union of several sets.",
        "1.0.0",
    ),
    Spec::data("sunionstore", -3, and(WRITE_OOM, WHOLE), Keys::From(1), combine::sunionstore)
        .doc("destination key [key ...]", "Stores the union of several sets in a key.", "1.0.0"),
    Spec::data("sdiff", -2, and(READ, WHOLE), Keys::From(1), combine::sdiff).doc(
        "key [key ...]",
        "Returns the difference between the first set and all following sets.",
        "1.0.0",
    ),
    Spec::data("sdiffstore", -3, and(WRITE_OOM, WHOLE), Keys::From(1), combine::sdiffstore)
        .doc("destination key [key ...]", "Stores the difference between the first set and all following sets in a key.", "1.0.0"),
    Spec::data("sscan", -3, READ, Keys::At(1), scan::sscan).doc(
        "key cursor [MATCH pattern] [COUNT count]",
        "Iterates over the members of a set with a cursor.",
        "2.8.0",
    ),
];
