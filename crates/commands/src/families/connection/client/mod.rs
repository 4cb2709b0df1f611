//! CLIENT: the table of its subcommands.

mod flags;
mod kill;
mod list;
mod name;
mod pause;
mod tracking;
mod unblock;

use crate::help;
use crate::spec::flag::{ADMIN, NO_MULTI, NO_REST, NO_SCRIPT, and};
use crate::spec::{Flags, Spec};

pub(super) use name::check as check_name;

/// Concerns the calling connection.
const OWN: Flags = and(NO_SCRIPT, NO_REST);
const OTHERS: Flags = and(ADMIN, OWN);

pub(super) const TABLE: &[Spec] = &[
    Spec::conn("client|id", 2, OWN, name::id).doc("", "Returns the ID of the connection.", "5.0.0"),
    Spec::conn("client|getname", 2, OWN, name::getname).doc(
        "",
        "Returns the name of the connection.",
        "2.6.9",
    ),
    Spec::conn("client|setname", 3, OWN, name::setname).doc(
        "connection-name",
        "Sets the name of the connection. An empty name removes it.",
        "2.6.9",
    ),
    Spec::conn("client|setinfo", 4, OWN, name::setinfo).doc(
        "<LIB-NAME libname | LIB-VER libver>",
        "Sets the name or version of the client library of the connection.",
        "7.2.0",
    ),
    Spec::conn("client|info", 2, OWN, list::info).doc("", "Returns information about the connection.", "6.2.0"),
    Spec::conn("client|list", -2, OTHERS, list::list).doc(
        "[TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id [client-id ...]]",
        "Returns information about the open connections, one per line.",
        "2.4.0",
    ),
    Spec::conn("client|kill", -3, OTHERS, kill::kill).doc(
        "<ip:port | <[ID client-id] | [TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] | [USER username] | [ADDR ip:port] | [LADDR ip:port] | [SKIPME <YES | NO>] | [MAXAGE maxage]> ...>",
        "Closes connections.",
        "2.4.0",
    ),
    Spec::conn("client|pause", -3, OTHERS, pause::pause).doc(
        "timeout [WRITE | ALL]",
        "Suspends the commands of all connections, or only the commands that may write.",
        "3.0.0",
    ),
    Spec::conn("client|unpause", 2, OTHERS, pause::unpause).doc("", "Resumes the commands that CLIENT PAUSE suspended.", "6.2.0"),
    Spec::conn("client|unblock", -3, OTHERS, unblock::unblock).doc(
        "client-id [TIMEOUT | ERROR]",
        "Unblocks a connection that is blocked by a command such as BLPOP.",
        "5.0.0",
    ),
    Spec::conn("client|reply", 3, and(OWN, NO_MULTI), flags::reply).doc(
        "<ON | OFF | SKIP>",
        "Controls whether the server sends replies to the connection.",
        "3.2.0",
    ),
    Spec::conn("client|no-evict", 3, OTHERS, flags::no_evict).doc(
        "<ON | OFF>",
        "Sets a flag of the connection that has no effect: connections are never evicted.",
        "7.0.0",
    ),
    Spec::conn("client|no-touch", 3, OWN, flags::no_touch).doc(
        "<ON | OFF>",
        "Sets a flag of the connection that has no effect: the time of the last access to a key is not tracked.",
        "7.2.0",
    ),
    Spec::conn("client|tracking", -3, OWN, tracking::tracking).doc(
        "<ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]",
        "Accepts only OFF: client-side caching is not supported.",
        "6.0.0",
    ),
    Spec::conn("client|trackinginfo", 2, OWN, tracking::trackinginfo).doc(
        "",
        "Returns information about client-side caching: it is always off.",
        "6.2.0",
    ),
    Spec::conn("client|getredir", 2, OWN, tracking::getredir).doc(
        "",
        "Returns -1: client-side caching is always off.",
        "6.0.0",
    ),
    Spec::conn("client|caching", 3, OWN, tracking::caching).doc(
        "<YES | NO>",
        "Always returns an error: client-side caching is not supported.",
        "6.0.0",
    ),
    Spec::conn("client|help", 2, NO_REST, help::help).doc("", "Returns a list of the subcommands of CLIENT.", "5.0.0"),
];
