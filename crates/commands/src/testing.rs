//! A test fixture: a keyspace, a manual clock, and commands as lines of text.

use keystead_core::Millis;
use keystead_model::keyspace::Keyspace;
use keystead_model::testing::Shared;

use crate::args::Command;
use crate::conn::Conn;
use crate::ctx::{Ctx, Dialect, Wait};
use crate::dispatch;
use crate::hub::{Facts, Host, Hub};
use crate::random::Random;
use crate::reply::Reply;
use crate::session::Session;
use crate::spec::Run;
use crate::wire;

/// Whether keys are read on demand, as in a Durable Object: `./test` runs these tests in both modes.
fn on_demand() -> bool {
    std::env::var_os("KEYSTEAD_ON_DEMAND").is_some()
}

/// A keyspace without keys, in that mode.
pub(crate) fn keyspace() -> Keyspace {
    if on_demand() { Shared::with_keyspace().1 } else { Keyspace::in_memory() }
}

/// A server without a token, with so many shards.
pub(crate) struct Shards(pub(crate) usize);

impl Host for Shards {
    fn needs_token(&self) -> bool {
        false
    }

    fn is_token(&self, _: &[u8]) -> bool {
        false
    }

    fn shards(&self) -> usize {
        self.0
    }

    fn facts(&self) -> Facts {
        Facts::default()
    }
}

pub(crate) struct Desk {
    pub(crate) keys: Keyspace,
    pub(crate) now: Millis,
    pub(crate) random: Random,
    pub(crate) hub: Hub,
    /// The connection that sends the commands.
    pub(crate) session: Session,
    /// What the last command would block on.
    pub(crate) wait: Option<Wait>,
    /// Whether commands run as if they had been blocked.
    pub(crate) woken: bool,
    /// The dialect of the replies.
    pub(crate) dialect: Dialect,
}

impl Desk {
    pub(crate) fn new() -> Self {
        Desk::at(Box::new(Shards(1)))
    }

    /// A desk in the Upstash dialect.
    pub(crate) fn upstash() -> Self {
        Desk { dialect: Dialect::Upstash, ..Desk::new() }
    }

    /// A desk whose keys are in memory in both modes, for tests of what they use there.
    pub(crate) fn in_memory() -> Self {
        Desk { keys: Keyspace::in_memory(), ..Desk::new() }
    }

    /// A desk with this server.
    pub(crate) fn at(host: Box<dyn Host>) -> Self {
        let hub = Hub::new(host);
        let session = Desk::connect(&hub);
        Desk {
            keys: keyspace(),
            now: Millis(1_700_000_000_000),
            random: Random::new(1),
            hub,
            session,
            wait: None,
            woken: false,
            dialect: Dialect::Redis,
        }
    }

    /// Another connection.
    pub(crate) fn connect(hub: &Hub) -> Session {
        let now = Millis(1_700_000_000_000);
        let client = hub.clients.add("127.0.0.1:5000".into(), "127.0.0.1:6379".into(), now, 100).unwrap();
        Session::new(client, !hub.host.needs_token())
    }

    /// Runs a command whose arguments are separated by spaces; `''` is an empty argument.
    pub(crate) fn run(&mut self, line: &str) -> Reply {
        self.run_args(&line.split(' ').map(|arg| if arg == "''" { "" } else { arg }).collect::<Vec<_>>())
    }

    pub(crate) fn run_args<T: AsRef<[u8]>>(&mut self, args: &[T]) -> Reply {
        let command = Command::new(args);
        let spec = match dispatch::resolve_in(self.dialect, command.args()) {
            Ok(spec) => spec,
            Err(fail) => return Reply::Error(fail),
        };
        if matches!(spec.run, Run::Conn(_) | Run::Shared(_)) {
            let mut conn = Conn::new(&mut self.session, &self.hub, self.now);
            conn.dialect = self.dialect;
            return dispatch::run_conn(&mut conn, spec, command.args());
        }
        let mut ctx = Ctx::new(&mut self.keys, self.now, &mut self.random, &self.hub);
        ctx.woken = self.woken;
        ctx.dialect = self.dialect;
        let reply = dispatch::run_data(&mut ctx, spec, command.args());
        self.wait = ctx.wait.take();
        ctx.publish.iter().for_each(|publication| self.hub.bus.publish(publication, 0));
        if on_demand() {
            // The next command finds nothing in memory.
            self.keys.write_rows().unwrap();
            self.keys.shrink(0);
        }
        self.keys.check().unwrap();
        reply
    }

    /// The reply in RESP2, with line ends shown as spaces: `*2 $1 a :1`.
    pub(crate) fn resp(&mut self, line: &str) -> String {
        shown(&self.run(line))
    }

    /// Runs each line and compares its reply in RESP2.
    pub(crate) fn expect(&mut self, lines: &[(&str, &str)]) {
        for (line, expected) in lines {
            let reply = self.run(line);
            // A set has no order, and has another one after it was read from rows.
            let order = if on_demand() && matches!(reply, Reply::Set(_)) { sorted } else { str::to_owned };
            assert_eq!(order(&shown(&reply)), order(expected), "{line}");
        }
    }
}

/// The reply of a set with its members in their order: after the count, each is its length and its text.
fn sorted(shown: &str) -> String {
    let words: Vec<&str> = shown.split(' ').collect();
    let (count, members) = words.split_at(1);
    let mut members: Vec<&[&str]> = members.chunks(2).collect();
    members.sort_unstable();
    [count, &members.concat()].concat().join(" ")
}

/// A reply in RESP2, with line ends shown as spaces.
pub(crate) fn shown(reply: &Reply) -> String {
    let mut out = Vec::new();
    wire::resp2::encode(reply, &mut out);
    String::from_utf8_lossy(&out).replace("\r\n", " ").trim_end().to_owned()
}
