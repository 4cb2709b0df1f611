//! CLIENT: the table of its subcommands.

mod kill;
mod list;
mod name;
mod pause;
mod tracking;
mod unblock;
mod wish;

use crate::help;
use crate::spec::flag::{ADMIN, NO_MULTI, NO_REST, NO_SCRIPT, and};
use crate::spec::{Flags, Spec};

pub(super) use name::check as check_name;

/// About the connection that asks.
const OWN: Flags = and(NO_SCRIPT, NO_REST);
const OTHERS: Flags = and(ADMIN, OWN);

pub(super) const TABLE: &[Spec] = &[
    Spec::conn("ID", "client|id", 2, OWN, name::id).doc("", "Gives the connection's number.", "5.0.0"),
    Spec::conn("GETNAME", "client|getname", 2, OWN, name::getname).doc(
        "",
        "Gives the connection's name.",
        "2.6.9",
    ),
    Spec::conn("SETNAME", "client|setname", 3, OWN, name::setname).doc(
        "connection-name",
        "Names the connection; an empty name takes it away.",
        "2.6.9",
    ),
    Spec::conn("SETINFO", "client|setinfo", 4, OWN, name::setinfo).doc(
        "<LIB-NAME libname | LIB-VER libver>",
        "Tells which library the client is.",
        "7.2.0",
    ),
    Spec::conn("INFO", "client|info", 2, OWN, list::info).doc("", "Shows the connection.", "6.2.0"),
    Spec::conn("LIST", "client|list", -2, OTHERS, list::list).doc(
        "[TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id [client-id ...]]",
        "Shows connections, one in a line.",
        "2.4.0",
    ),
    Spec::conn("KILL", "client|kill", -3, OTHERS, kill::run).doc(
        "<ip:port | <[ID client-id] | [TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] | [USER username] | [ADDR ip:port] | [LADDR ip:port] | [SKIPME <YES | NO>] | [MAXAGE maxage]> ...>",
        "Ends connections.",
        "2.4.0",
    ),
    Spec::conn("PAUSE", "client|pause", -3, OTHERS, pause::pause).doc(
        "timeout [WRITE | ALL]",
        "Lets the commands of all connections wait, or only those that may write.",
        "3.0.0",
    ),
    Spec::conn("UNPAUSE", "client|unpause", 2, OTHERS, pause::unpause).doc("", "Ends the pause.", "6.2.0"),
    Spec::conn("UNBLOCK", "client|unblock", -3, OTHERS, unblock::run).doc(
        "client-id [TIMEOUT | ERROR]",
        "Wakes a connection that waits for keys.",
        "5.0.0",
    ),
    Spec::conn("REPLY", "client|reply", 3, and(OWN, NO_MULTI), wish::reply).doc(
        "<ON | OFF | SKIP>",
        "Says whether answers are wanted.",
        "3.2.0",
    ),
    Spec::conn("NO-EVICT", "client|no-evict", 3, OTHERS, wish::no_evict).doc(
        "<ON | OFF>",
        "Is remembered: connections are not evicted.",
        "7.0.0",
    ),
    Spec::conn("NO-TOUCH", "client|no-touch", 3, OWN, wish::no_touch).doc(
        "<ON | OFF>",
        "Is remembered: no key's last use is shown to anybody.",
        "7.2.0",
    ),
    Spec::conn("TRACKING", "client|tracking", -3, OWN, tracking::tracking).doc(
        "<ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]",
        "Only OFF: invalidation messages are not supported.",
        "6.0.0",
    ),
    Spec::conn("TRACKINGINFO", "client|trackinginfo", 2, OWN, tracking::info).doc(
        "",
        "Tells that tracking is off.",
        "6.2.0",
    ),
    Spec::conn("GETREDIR", "client|getredir", 2, OWN, tracking::getredir).doc(
        "",
        "Tells that tracking is off: -1.",
        "6.0.0",
    ),
    Spec::conn("CACHING", "client|caching", 3, OWN, tracking::caching).doc(
        "<YES | NO>",
        "Is refused: tracking is off.",
        "6.0.0",
    ),
    Spec::conn("HELP", "client|help", 2, NO_REST, help::conn).doc("", "Prints this help.", "5.0.0"),
];
