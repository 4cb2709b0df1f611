//! Sends a script to all servers, in the same order of events, and records their replies.
//!
//! Steps on one pipelined connection go out together; a change of connections waits for every reply, so that the order is
//! the same everywhere.

use std::time::Duration;

use crate::peers::{Peer, Peers};
use crate::script::{Judges, Request, Script, Step, Use};
use crate::wire::Value;

/// How many requests go out before their replies are read.
const CHUNK: usize = 50;

/// How often a request that may wait is looked at until it is known to wait.
const LOOKS: usize = 60;

/// How many calls an iteration may take.
const CALLS_MAX: usize = 1000;

/// The replies of the servers, step by step.
pub(crate) struct Ran {
    /// None where Redis is no judge.
    pub(crate) redis: Option<Vec<Value>>,
    pub(crate) valkey: Vec<Value>,
    pub(crate) subject: Vec<Value>,
}

/// Runs a script on servers that begin anew.
pub(crate) fn run(script: &Script, peers: &mut Peers, patience: Duration) -> Ran {
    peers.clear(patience);
    let Peers { redis, valkey, subject, .. } = peers;
    let redis = redis.as_mut().filter(|_| script.judges == Judges::Both);
    let mut turn: Vec<&mut Peer> = redis.into_iter().chain([valkey, subject]).collect();
    let steps: Vec<&Step> = script.steps().collect();
    for peer in &mut turn {
        learn_ids(peer, &steps);
    }
    let mut replies: Vec<Vec<Value>> = turn.iter().map(|_| Vec::with_capacity(steps.len())).collect();
    let mut rest = &steps[..];
    while let Some(first) = rest.first() {
        // Where one is silent, the others would only be waited for in vain.
        if replies.iter().flat_map(|replies| replies.iter().rev().take(CHUNK)).any(Value::is_silence) {
            replies.iter_mut().for_each(|replies| replies.extend(rest.iter().map(|_| Value::silence())));
            break;
        }
        let together = |step: &&&Step| step.is_pipelined() && step.conn == first.conn;
        let len = rest.iter().take(CHUNK).take_while(together).count();
        let (chunk, after) = rest.split_at(len.max(1));
        rest = after;
        if len == 0 {
            let mut least = 0;
            for (peer, replies) in turn.iter_mut().zip(&mut replies) {
                let reply = alone(peer, first, least);
                least = reply.as_frames().len();
                replies.push(reply);
            }
            continue;
        }
        for peer in &mut turn {
            let requests: Vec<Request> = chunk.iter().map(|step| resolved(peer, step)).collect();
            peer.conn(first.conn).send(requests.iter().map(|request| &request[..]));
        }
        for (peer, replies) in turn.iter_mut().zip(&mut replies) {
            replies.extend(chunk.iter().map(|_| peer.conn(first.conn).receive()));
        }
    }
    let (subject, valkey) = (replies.pop(), replies.pop());
    Ran { redis: replies.pop(), valkey: valkey.unwrap_or_default(), subject: subject.unwrap_or_default() }
}

/// One step that cannot go out among others.
fn alone(peer: &mut Peer, step: &Step, least: usize) -> Value {
    match step.usage() {
        Use::Pipelined => iterate(peer, step),
        Use::Messages => {
            let request = resolved(peer, step);
            let request = (!request.is_empty()).then_some(&request[..]);
            Value::frames(peer.conn(step.conn).frames(request, least))
        }
        Use::Waiting if step.args.is_empty() => peer.conn(step.conn).receive(),
        Use::Waiting => {
            wait(peer, step);
            Value::frames(Vec::new())
        }
        Use::Closing => {
            let request = resolved(peer, step);
            peer.conn(step.conn).send([&request[..]]);
            let ends = matches!(&step.name()[..], "QUIT" | "CLIENT");
            let conn = peer.conn(step.conn);
            let frames = if ends { conn.until_closed() } else { vec![conn.receive()] };
            if ends {
                peer.close(step.conn);
            }
            Value::frames(frames)
        }
        Use::Raw => {
            peer.close(step.conn);
            let bytes = step.args.first().map(Vec::as_slice).unwrap_or_default();
            Value::frames(peer.conn(step.conn).raw_frames(bytes))
        }
    }
}

/// Sends a request that may block, and returns when it is blocked or has its reply.
fn wait(peer: &mut Peer, step: &Step) {
    let request = resolved(peer, step);
    if peer.conn(step.conn).is_waiting() {
        // It stands behind another one, which is known to wait.
        return peer.conn(step.conn).send([&request[..]]);
    }
    let before = peer.waiting();
    peer.conn(step.conn).send([&request[..]]);
    for _ in 0..LOOKS {
        if peer.waiting() > before || peer.conn(step.conn).has_reply() {
            return;
        }
    }
}

/// A whole iteration: everything that it gave, in order and once. Anything but an iteration's reply is given as it is.
fn iterate(peer: &mut Peer, step: &Step) -> Value {
    let (Some(place), mut request) = (step.cursor(), step.args.clone()) else {
        return Value::lost("no iteration");
    };
    // Fields come with values and members with scores, but keys and members of sets alone.
    let width = if matches!(&step.name()[..], "HSCAN" | "ZSCAN") { 2 } else { 1 };
    let mut found: Vec<Vec<Value>> = Vec::new();
    request[place] = b"0".to_vec();
    for _ in 0..CALLS_MAX {
        let reply = peer.conn(step.conn).ask(&request);
        let Some([cursor, Value::Many(_, Some(items))]) = reply.items() else { return reply };
        let Some(cursor) = cursor.bytes() else { return reply };
        found.extend(items.chunks(width).map(<[Value]>::to_vec));
        request[place] = cursor.to_vec();
        if cursor == b"0" {
            found.sort();
            found.dedup();
            return Value::Many(b'*', Some(found.into_iter().flatten().collect()));
        }
    }
    Value::lost("an iteration without an end")
}

/// A request with the numbers of connections filled in.
fn resolved(peer: &mut Peer, step: &Step) -> Request {
    let number = |argument: &Vec<u8>| match letter(argument) {
        Some(letter) => peer.conn(letter).id().to_string().into_bytes(),
        None => argument.clone(),
    };
    step.args.iter().map(number).collect()
}

fn letter(argument: &[u8]) -> Option<char> {
    match argument {
        [b'<', b'i', b'd', b':', letter, b'>'] => Some(char::from(*letter)),
        _ => None,
    }
}

/// Reads the numbers of the connections that the script names, while they can reply.
fn learn_ids(peer: &mut Peer, steps: &[&Step]) {
    for letter in steps.iter().flat_map(|step| &step.args).filter_map(|argument| letter(argument)) {
        peer.conn(letter).id();
    }
}
