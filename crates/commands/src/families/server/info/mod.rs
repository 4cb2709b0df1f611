//! `INFO [section [section ...]]`

mod section;

use std::collections::BTreeSet;

use crate::args::Args;
use crate::conn::Conn;
use crate::errors::CommandResult;
use crate::reply::Reply;
use section::{SECTIONS, Snapshot};

pub(super) fn info(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    let wanted: BTreeSet<String> =
        args.from(1).map(|name| String::from_utf8_lossy(name).to_ascii_lowercase()).collect();
    let default = wanted.is_empty() || wanted.contains("default");
    let all = wanted.contains("all") || wanted.contains("everything") || default && conn.is_upstash();
    let snapshot = Snapshot::new(conn);
    let mut text = String::new();
    for section in SECTIONS {
        if all || default && section.default || wanted.contains(section.name) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            text.push_str(&format!("# {}\r\n", section.title));
            (section.write)(&snapshot, &mut text);
        }
    }
    Ok(Reply::Verbatim(text))
}

#[cfg(test)]
mod tests {
    use super::super::save::tests::Durability;
    use crate::errors;
    use crate::testing::Desk;

    #[test]
    fn sections_are_chosen() {
        let mut desk = Desk::at(Box::new(Durability("commit")));
        let titles = |text: &str| text.matches("# ").count();
        assert_eq!(titles(&desk.resp("INFO")), 11);
        assert_eq!(titles(&desk.resp("INFO everything")), 13);
        assert_eq!(titles(&desk.resp("INFO Server server CLIENTS")), 2);
        assert_eq!(desk.resp("INFO nope"), "$0");
        desk.dialect = crate::ctx::Dialect::Upstash;
        assert_eq!(titles(&desk.resp("INFO")), 13);
        assert_eq!(titles(&desk.resp("INFO server")), 1);
        let server = desk.resp("INFO server");
        assert!(server.contains("# Server redis_version:7.4.0 keystead_version:0.1.0 "), "{server}");
        assert!(server.contains("uptime_in_seconds:60 "));
        assert!(desk.resp("INFO persistence").contains("loading:0 "));
        assert!(desk.resp("INFO persistence").contains("aof_enabled:1 "));
        assert!(desk.resp("INFO replication").contains("role:master connected_slaves:0 "));
    }

    #[test]
    fn statistics_are_those_of_the_hub() {
        let mut desk = Desk::new();
        let other = Desk::connect(&desk.hub);
        other.client.shown().blocked = true;
        desk.run("SUBSCRIBE a");
        desk.hub.stats.failed(&errors::SYNTAX);
        assert!(desk.resp("INFO clients").contains("connected_clients:2 "));
        assert!(desk.resp("INFO clients").contains("blocked_clients:1 "));
        assert!(desk.resp("INFO clients").contains("pubsub_clients:1 "));
        let stats = desk.resp("INFO stats");
        assert!(stats.contains("pubsub_channels:1 ") && stats.contains("total_error_replies:1"), "{stats}");
        assert!(desk.resp("INFO errorstats").contains("errorstat_ERR:count=1"));
        desk.run("CONFIG RESETSTAT");
        assert!(desk.resp("INFO stats").contains("total_connections_received:0 "));
        assert!(!desk.resp("INFO keyspace").contains("db0"));
    }
}
