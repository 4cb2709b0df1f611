//! Runs commands on a keyspace, as a connection sends them. For all of them:
//!
//! - nothing panics, and the keyspace is consistent;
//! - an error, and a command that does not write, changes nothing;
//! - a rollback restores the keyspace;
//! - the recorded effects survive their codec and result in the same keyspace;
//! - every reply can be encoded in RESP2 and RESP3.

use keystead_commands::args::Args;
use keystead_commands::conn::Conn;
use keystead_commands::dispatch::{self, Plan};
use keystead_commands::hub::{Facts, Host, Hub};
use keystead_commands::session::Session;
use keystead_commands::wire::request::{Bounds, Parser};
use keystead_commands::{Ctx, Random, Reply, Spec, wire};
use keystead_core::Millis;
use keystead_model::effect::{Decoder, Effect, Fact, encode};
use keystead_model::keyspace::Keyspace;

const START: Millis = Millis(1_700_000_000_000);

/// How long a script may run. It is reset before each command, because a command may set it.
const SCRIPT_MS: &[u8] = b"50";

/// A larger keyspace is not copied and compared, which would take too long.
const COMPARED_BYTES_MAX: usize = 256 * 1024;

/// An input stops at this size of the keyspace.
const KEYSPACE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The largest offset in a string: more is allowed, and would be allocated.
const OFFSET_MAX: u64 = 100_000;

/// A server without a token, of one shard.
struct NoToken;

impl Host for NoToken {
    fn needs_token(&self) -> bool {
        false
    }

    fn is_token(&self, _: &[u8]) -> bool {
        false
    }

    fn shards(&self) -> usize {
        1
    }

    fn facts(&self) -> Facts {
        Facts::default()
    }
}

/// A keyspace, a copy that follows its effects, and a connection.
pub struct Harness {
    keys: Keyspace,
    copy: Keyspace,
    now: Millis,
    random: Random,
    hub: Hub,
    session: Session,
    sent: usize,
}

impl Default for Harness {
    fn default() -> Self {
        let hub = Hub::new(Box::new(NoToken));
        let client = hub.clients.add("127.0.0.1:5000".into(), "127.0.0.1:6379".into(), START, 100);
        Harness {
            keys: Keyspace::in_memory(),
            copy: Keyspace::in_memory(),
            now: START,
            random: Random::new(1),
            session: Session::new(client.expect("it is the first"), true),
            hub,
            sent: 0,
        }
    }
}

impl Harness {
    /// Advances the time.
    pub fn pass_ms(&mut self, ms: u64) {
        self.now = self.now.plus_ms(ms);
        self.keys.reclaim(self.now, &mut { 1000 }).expect("nothing is archived");
    }

    /// Sends bytes in pieces of this length, until the parser or a command closes the connection.
    pub fn feed(&mut self, bytes: &[u8], piece: usize) {
        let bounds = Bounds { bulk_bytes_max: 1024 * 1024, trusted: true };
        let (mut parser, mut start, mut end) = (Parser::default(), 0, 0);
        while start < bytes.len() && self.keys.used_bytes() < KEYSPACE_BYTES_MAX {
            match parser.read(&bytes[start..end], bounds) {
                Err(_) => return,
                Ok(None) if end == bytes.len() => return,
                Ok(None) => end = (end + piece.max(1)).min(bytes.len()),
                Ok(Some(len)) => {
                    let buffer = &bytes[start..end];
                    assert!(0 < len && len <= buffer.len(), "a request of {len} bytes in {}", buffer.len());
                    if !parser.args(buffer).is_empty() {
                        self.send(parser.args(buffer));
                    }
                    parser.finish();
                    start += len;
                }
            }
            if self.session.closing {
                return;
            }
        }
    }

    /// Sends one command.
    pub fn send(&mut self, args: Args<'_>) -> Reply {
        if is_huge(args) {
            return Reply::Nil;
        }
        let limit = self.hub.config.set(&[(b"busy-reply-threshold", SCRIPT_MS)], &Facts::default());
        assert!(limit.is_ok());
        let reply = match dispatch::plan(&mut self.session, &self.hub, args) {
            Plan::Reply(reply) | Plan::Unwatch(reply) => reply,
            Plan::Watch => Reply::Ok,
            Plan::Data(spec) => self.run_data(spec, args),
            Plan::Conn(spec) => self.run_conn(spec, args),
            Plan::Exec => self.exec(),
        };
        for encode in [wire::resp2::encode, wire::resp3::encode] {
            encode(&reply, &mut Vec::new());
        }
        self.follow();
        reply
    }

    /// The keyspace must equal the copy that has only received the effects.
    pub fn compare(&mut self) {
        // What expired since the last command has effects as well.
        self.follow();
        self.keys.check().expect("the keyspace is consistent");
        if self.keys.used_bytes() > COMPARED_BYTES_MAX {
            return;
        }
        self.copy.check().expect("the copy is consistent");
        let (here, there) =
            (self.keys.dump().expect("it is in memory"), self.copy.dump().expect("it is in memory"));
        assert!(here == there, "the effects result in another keyspace");
    }

    fn run_conn(&mut self, spec: &'static Spec, args: Args<'_>) -> Reply {
        dispatch::run_conn(&mut Conn::new(&mut self.session, &self.hub, self.now), spec, args)
    }

    fn run_data(&mut self, spec: &'static Spec, args: Args<'_>) -> Reply {
        self.sent += 1;
        if self.sent.is_multiple_of(8) && self.keys.used_bytes() < COMPARED_BYTES_MAX {
            self.run_in_vain(spec, args);
        }
        let reply = self.run(spec, args);
        // The changes of a script before its error are kept, as on Redis.
        let is_script = spec.full_name.starts_with("eval") || spec.full_name.starts_with("fcall");
        if (reply.is_error() && !is_script) || !spec.writes() {
            let left = self.keys.effects().iter().find(|effect| !is_reclaiming(&effect.fact));
            assert!(left.is_none(), "{} replies {reply:?} and leaves {left:?}", spec.full_name);
        }
        reply
    }

    fn run(&mut self, spec: &'static Spec, args: Args<'_>) -> Reply {
        let mut ctx = Ctx::new(&mut self.keys, self.now, &mut self.random, &self.hub);
        ctx.woken = self.sent % 10 == 9;
        let reply = dispatch::run_data(&mut ctx, spec, args);
        ctx.publish.iter().for_each(|publication| _ = self.hub.bus.publish(publication, 0));
        reply
    }

    fn run_in_vain(&mut self, spec: &'static Spec, args: Args<'_>) {
        let (before, revision) = (self.keys.dump().expect("it is in memory"), self.keys.revision());
        self.keys.savepoint();
        self.run(spec, args);
        self.keys.rollback();
        self.keys.check().expect("the keyspace is consistent");
        let after = self.keys.dump().expect("it is in memory");
        assert!(
            after == before && self.keys.revision() == revision,
            "{} is rolled back in part",
            spec.full_name
        );
    }

    fn exec(&mut self) -> Reply {
        let queue = dispatch::end_multi(&mut self.session).map(|multi| multi.queue).unwrap_or_default();
        let mut replies = Vec::new();
        for queued in &queue {
            replies.push(match queued.spec.run {
                keystead_commands::spec::Run::Data(_) => self.run(queued.spec, queued.command.args()),
                keystead_commands::spec::Run::Control(_) => Reply::Ok,
                _ => self.run_conn(queued.spec, queued.command.args()),
            });
        }
        Reply::Array(replies)
    }

    /// Applies the recorded effects to the copy, through the codec.
    fn follow(&mut self) {
        let (mut effects, mut bytes) = (Vec::new(), Vec::new());
        self.keys.take_effects(&mut effects);
        encode(&effects, &mut bytes);
        let decoded: Vec<Effect> =
            Decoder::new(&bytes).map(|effect| effect.expect("it was encoded")).collect();
        assert!(decoded == effects, "effects are decoded differently");
        for effect in &decoded {
            self.copy.apply_effect(effect).expect("it follows");
        }
    }
}

/// An expired key may be removed at any time.
fn is_reclaiming(fact: &Fact) -> bool {
    matches!(fact, Fact::Deleted | Fact::HashFieldDeleted(_))
}

/// Whether a request creates a string as long as its offset, which is allowed up to 512 MB.
fn is_huge(args: Args<'_>) -> bool {
    let name = args.name().to_ascii_uppercase();
    let by_offset = [&b"SETBIT"[..], b"SETRANGE", b"BITFIELD"].contains(&name.as_slice());
    let number = |text: &[u8]| {
        let digits = text.strip_prefix(b"#").unwrap_or(text);
        std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u64>().ok())
    };
    by_offset && (1..args.len()).any(|at| number(args.at(at)).is_some_and(|number| number > OFFSET_MAX))
}
