//! The MONITOR clients, and the lines that they receive. It touches nothing.
//!
//! Invariant: without MONITOR clients, a command costs one atomic load.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use keystead_core::Millis;
use keystead_model::Bytes;

use super::mailbox::{Mailbox, Message, MessageKind};
use super::{ClientId, Hub, Kind};
use crate::args::Args;
use crate::bounds::MONITOR_BYTES_MAX;
use crate::spec::{Spec, flag};

/// The address of commands of a script, as in Redis.
pub const SCRIPT: &str = "lua";

/// The replacement of secrets, as in Redis.
const SECRET: &[u8] = b"(redacted)";

/// The MONITOR clients.
#[derive(Default)]
pub struct Monitors {
    watching: Mutex<BTreeMap<ClientId, Arc<Mailbox>>>,
    count: AtomicUsize,
}

impl Monitors {
    /// Adds a client. The lines are sent as the contents of messages.
    pub fn subscribe(&self, client: ClientId, mailbox: &Arc<Mailbox>) {
        let mut watching = self.lock();
        watching.insert(client, Arc::clone(mailbox));
        self.count.store(watching.len(), Ordering::Release);
    }

    /// Removes a client.
    pub fn unsubscribe(&self, client: ClientId) {
        let mut watching = self.lock();
        watching.remove(&client);
        self.count.store(watching.len(), Ordering::Release);
    }

    /// The number of clients.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether there are none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ClientId, Arc<Mailbox>>> {
        self.watching.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hub {
    /// Sends a command to the MONITOR clients, if there are any. `address` is that of its client, or [`SCRIPT`].
    #[inline]
    pub fn monitor(&self, spec: &Spec, address: &str, now: Millis, args: Args<'_>) {
        if !self.monitors.is_empty() {
            self.show(spec, address, now, args);
        }
    }

    #[cold]
    fn show(&self, spec: &Spec, address: &str, now: Millis, args: Args<'_>) {
        // Administrative commands are not shown.
        if spec.flags.has(flag::ADMIN) {
            return;
        }
        let line = Bytes::from(line(spec, address, now, args));
        let limit = usize::try_from(self.config.output_limit(Kind::Pubsub).hard_bytes);
        let limit_bytes = limit.ok().filter(|bytes| *bytes > 0).unwrap_or(MONITOR_BYTES_MAX);
        for mailbox in self.monitors.lock().values() {
            let (channel, content) = (Bytes::default(), line.clone());
            mailbox.put(Message { channel, pattern: None, content, kind: MessageKind::Message }, limit_bytes);
        }
    }
}

/// `1721284005.242000 [0 127.0.0.1:5000] "GET" "k"`
fn line(spec: &Spec, address: &str, now: Millis, args: Args<'_>) -> Vec<u8> {
    let mut line = format!("{}.{:06} [0 {address}]", now.0 / 1000, now.0 % 1000 * 1000).into_bytes();
    let mut secrets = 0;
    for (place, argument) in args.from(0).enumerate() {
        line.push(b' ');
        let secret = match spec.full_name {
            "auth" => place > 0,
            "hello" => secrets > 0,
            _ => false,
        };
        let announces = secrets == 0 && argument.eq_ignore_ascii_case(b"AUTH");
        secrets = if announces { 2 } else { usize::saturating_sub(secrets, 1) };
        quote(if secret { SECRET } else { argument }, &mut line);
    }
    line
}

/// An argument in quotes; bytes that cannot be printed are shown as hexadecimal numbers.
fn quote(argument: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    for &byte in argument {
        let letter = match byte {
            b'"' | b'\\' => byte,
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x07 => b'a',
            0x08 => b'b',
            b' '..=b'~' => {
                out.push(byte);
                continue;
            }
            _ => {
                let digits = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
                out.extend([b'\\', b'x'].into_iter().chain(digits));
                continue;
            }
        };
        out.extend([b'\\', letter]);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;
    use crate::args::Command;
    use crate::dispatch;
    use crate::testing::Desk;

    fn shown(words: &[&[u8]]) -> String {
        let command = Command::new(words);
        let spec = dispatch::resolve(command.args()).unwrap();
        String::from_utf8(line(spec, "1.2.3.4:5", Millis(1_721_284_005_042), command.args())).unwrap()
    }

    #[test]
    fn lines_are_those_of_redis() {
        assert_eq!(
            shown(&[b"set", b"k", b"a\"b\\c\0\n\t\x07\xc3\xa9 ~\x08\r"]),
            r#"1721284005.042000 [0 1.2.3.4:5] "set" "k" "a\"b\\c\x00\n\t\a\xc3\xa9 ~\b\r""#
        );
        assert!(shown(&[b"AUTH", b"u", b"p"]).ends_with(r#""AUTH" "(redacted)" "(redacted)""#));
        let hello = shown(&[b"HELLO", b"3", b"auth", b"auth", b"p", b"SETNAME", b"n"]);
        assert!(hello.ends_with(r#""3" "auth" "(redacted)" "(redacted)" "SETNAME" "n""#), "{hello}");
    }

    #[test]
    fn only_monitors_receive_lines_and_a_slow_one_is_marked() {
        let desk = Desk::new();
        let (mailbox, waker) = (Arc::<Mailbox>::default(), Waker::noop());
        let command = Command::new(["GET", "k"]);
        let spec = dispatch::resolve(command.args()).unwrap();
        let send = || desk.hub.monitor(spec, SCRIPT, Millis(1), command.args());
        send();
        desk.hub.monitors.subscribe(7, &mailbox);
        send();
        let seen = mailbox.take(waker).unwrap();
        assert_eq!(seen.len(), 1);
        assert_eq!(&seen[0].content[..], b"0.001000 [0 lua] \"GET\" \"k\"");
        let config = Command::new(["CONFIG", "GET", "x"]);
        let spec = dispatch::resolve(config.args()).unwrap();
        desk.hub.monitor(spec, SCRIPT, Millis(1), config.args());
        assert!(mailbox.take(waker).unwrap().is_empty());
        let limit = "client-output-buffer-limit".as_bytes();
        desk.hub.config.set(&[(limit, b"pubsub 100 0 0")], &desk.hub.host.facts()).unwrap();
        send();
        send();
        assert!(mailbox.take(waker).is_none(), "more than 100 bytes wait");
        desk.hub.monitors.unsubscribe(7);
        assert!(desk.hub.monitors.is_empty());
    }
}
