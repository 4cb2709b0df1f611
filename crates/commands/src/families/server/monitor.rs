//! `MONITOR`

use crate::args::Args;
use crate::conn::Conn;
use crate::errors::CommandResult;
use crate::reply::Reply;

pub(super) fn monitor(conn: &mut Conn<'_>, _: Args<'_>) -> CommandResult {
    let session = &mut *conn.session;
    // A client that is already in MONITOR mode gets no reply, as in Redis.
    if session.monitor.is_some() {
        return Ok(Reply::Several(Vec::new()));
    }
    let mailbox = session.monitor.insert(Default::default());
    conn.hub.monitors.subscribe(session.client.id, mailbox);
    session.client.shown().monitor = true;
    Ok(Reply::Ok)
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use crate::args::Command;
    use crate::dispatch::{self, Plan};
    use crate::errors;
    use crate::families::connection;
    use crate::hub::Hub;
    use crate::session::Session;
    use crate::testing::Desk;

    fn plan(session: &mut Session, hub: &Hub, line: &str) -> Plan {
        dispatch::plan(session, hub, Command::new(line.split(' ')).args())
    }

    #[test]
    fn monitors_receive_commands_as_they_run() {
        let mut desk = Desk::new();
        desk.expect(&[("MONITOR", "+OK"), ("MONITOR", "")]);
        assert!(desk.resp("CLIENT INFO").contains(" flags=O "));
        let mut other = Desk::connect(&desk.hub);
        for line in ["GET k", "GET", "CONFIG GET x", "MULTI", "SET a 1", "incr a", "EXEC"] {
            plan(&mut other, &desk.hub, line);
        }
        let seen = desk.session.monitor.as_ref().unwrap().take(Waker::noop()).unwrap();
        let seen: Vec<_> = seen
            .iter()
            .map(|line| String::from_utf8_lossy(&line.content).into_owned())
            .map(|line| line.split_once("] ").unwrap().1.to_owned())
            .collect();
        assert_eq!(seen, [r#""GET" "k""#, r#""MULTI""#, r#""SET" "a" "1""#, r#""incr" "a""#, r#""EXEC""#]);
    }

    #[test]
    fn a_monitor_client_cannot_touch_keys_until_reset() {
        let mut desk = Desk::new();
        desk.run("MONITOR");
        let planned = plan(&mut desk.session, &desk.hub, "GET k");
        let Plan::Reply(reply) = planned else { panic!("{planned:?}") };
        assert_eq!(reply, crate::Reply::Error(errors::WATCHES_COMMANDS));
        assert!(matches!(plan(&mut desk.session, &desk.hub, "PING"), Plan::Conn(_)));
        connection::reset(&mut desk.session, &desk.hub);
        assert!(desk.hub.monitors.is_empty());
        assert!(matches!(plan(&mut desk.session, &desk.hub, "GET k"), Plan::Data(_)));
    }
}
