//! All data of a server, read key by key, so that changes that no reply has shown are compared too.

use std::collections::BTreeMap;

use crate::compare::near;
use crate::peers::Peer;
use crate::rules::mask_facts;
use crate::script::{Judges, Request, words};
use crate::wire::Value;

/// Milliseconds by which moments of expiry may differ.
const NEAR_MS: i64 = 60_000;

/// What is known of one key.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    kind: Value,
    expiry: Value,
    content: Vec<Value>,
    /// Moments at which fields expire.
    fields: Vec<Value>,
}

impl Entry {
    fn agrees(&self, other: &Entry) -> bool {
        self.kind == other.kind
            && near(&self.expiry, &other.expiry, NEAR_MS)
            && self.content == other.content
            && self.fields.len() == other.fields.len()
            && self.fields.iter().zip(&other.fields).all(|(a, b)| near(a, b, NEAR_MS))
    }
}

/// All keys of a server.
pub(crate) type Dataset = BTreeMap<Vec<u8>, Entry>;

/// Reads everything.
pub(crate) fn read(peer: &mut Peer, judges: Judges) -> Dataset {
    let listed = peer.ask(&words("KEYS *"));
    let mut names: Vec<Vec<u8>> = listed
        .items()
        .unwrap_or_default()
        .iter()
        .filter_map(|name| name.bytes().map(<[u8]>::to_vec))
        .collect();
    names.sort();
    let heads = names.iter().flat_map(|name| [request("TYPE", name, ""), request("PEXPIRETIME", name, "")]);
    let heads = all(peer, &heads.collect::<Vec<_>>());
    let reads: Vec<Request> =
        names.iter().zip(heads.chunks(2)).map(|(name, head)| whole(name, &head[0])).collect();
    let contents = all(peer, &reads);
    let mut dataset = Dataset::new();
    for ((name, head), content) in names.iter().zip(heads.chunks(2)).zip(contents) {
        let kind = head[0].bytes().unwrap_or_default().to_vec();
        let content = canonical(&kind, &content);
        let mut entry = Entry {
            kind: head[0].clone(),
            expiry: head[1].clone(),
            content: vec![content],
            fields: Vec::new(),
        };
        match &kind[..] {
            b"stream" => entry.content.extend(groups(peer, name)),
            b"hash" if judges == Judges::Valkey => {
                entry.fields.push(field_expiry(peer, name, &entry.content[0]));
            }
            _ => {}
        }
        dataset.insert(name.clone(), entry);
    }
    dataset
}

/// The difference between two, as text.
pub(crate) fn difference(judge: &Dataset, subject: &Dataset) -> Option<String> {
    for name in judge.keys().chain(subject.keys()) {
        match (judge.get(name), subject.get(name)) {
            (Some(a), Some(b)) if a.agrees(b) => {}
            (a, b) => {
                let state = |entry: Option<&Entry>| {
                    entry.map_or("no such key".to_owned(), |entry| format!("{entry:?}"))
                };
                return Some(format!(
                    "key {:?} afterwards\n    judge:    {}\n    keystead: {}",
                    String::from_utf8_lossy(name),
                    state(a),
                    state(b)
                ));
            }
        }
    }
    None
}

fn request(before: &str, name: &[u8], after: &str) -> Request {
    let mut request = words(before);
    request.push(name.to_vec());
    request.extend(words(after));
    request
}

fn all(peer: &mut Peer, requests: &[Request]) -> Vec<Value> {
    let conn = peer.conn('!');
    conn.send(requests.iter().map(|request| &request[..]));
    requests.iter().map(|_| conn.receive()).collect()
}

/// The request that reads a whole value.
fn whole(name: &[u8], kind: &Value) -> Request {
    match kind.bytes().unwrap_or_default() {
        b"list" => request("LRANGE", name, "0 -1"),
        b"set" => request("SMEMBERS", name, ""),
        b"zset" => request("ZRANGE", name, "0 -1 WITHSCORES"),
        b"hash" => request("HGETALL", name, ""),
        b"stream" => request("XRANGE", name, "- +"),
        _ => request("GET", name, ""),
    }
}

/// Without an order where there is none; and scores as numbers, because each server writes them in its own way.
fn canonical(kind: &[u8], content: &Value) -> Value {
    if let (b"zset", Value::Many(mark, Some(items))) = (kind, content) {
        let score = |item: &Value| {
            let text = String::from_utf8_lossy(item.bytes().unwrap_or_default()).into_owned();
            text.parse::<f64>()
                .map_or_else(|_| item.clone(), |score| Value::Line(b',', format!("{score:?}").into_bytes()))
        };
        let parts = items.chunks(2).flat_map(|pair| [pair[0].clone(), score(&pair[1])]);
        return Value::Many(*mark, Some(parts.collect()));
    }
    let (Value::Many(mark, Some(items)), Some(width)) = (content, width(kind)) else {
        return content.clone();
    };
    let mut parts: Vec<&[Value]> = items.chunks(width).collect();
    parts.sort();
    Value::Many(*mark, Some(parts.concat()))
}

fn width(kind: &[u8]) -> Option<usize> {
    match kind {
        b"set" => Some(1),
        b"hash" => Some(2),
        _ => None,
    }
}

/// The groups of a stream, their consumers and what is pending.
fn groups(peer: &mut Peer, name: &[u8]) -> Vec<Value> {
    let facts = all(peer, &[request("XINFO STREAM", name, ""), request("XINFO GROUPS", name, "")]);
    let mut state: Vec<Value> = facts.iter().map(mask_facts).collect();
    for group in facts[1].items().unwrap_or_default() {
        let Some([_, Value::Bulk(_, Some(group)), ..]) = group.items() else { continue };
        let mut pending = request("XPENDING", name, "");
        pending.push(group.clone());
        let mut consumers = request("XINFO CONSUMERS", name, "");
        consumers.push(group.clone());
        let mut entries = pending.clone();
        entries.extend(words("- + 1000"));
        let replies = all(peer, &[pending, consumers, entries]);
        state.push(replies[0].clone());
        state.push(without_inactive(&mask_facts(&replies[1])));
        // Id, consumer, idle time, deliveries: all but the third.
        for entry in replies[2].items().unwrap_or_default() {
            let parts = entry.items().unwrap_or_default().iter().enumerate();
            state.extend(parts.filter(|(place, _)| *place != 2).map(|(_, part)| part.clone()));
        }
    }
    state
}

/// Consumers by name, pending and idle, as Redis 7.0 reports them: later versions report `inactive` too.
fn without_inactive(consumers: &Value) -> Value {
    let Value::Many(mark, Some(consumers)) = consumers else { return consumers.clone() };
    let short = consumers.iter().map(|consumer| match consumer {
        Value::Many(mark, Some(facts)) => Value::Many(*mark, Some(facts.iter().take(6).cloned().collect())),
        other => other.clone(),
    });
    Value::Many(*mark, Some(short.collect()))
}

fn field_expiry(peer: &mut Peer, name: &[u8], content: &Value) -> Value {
    let fields: Vec<Vec<u8>> = content
        .items()
        .unwrap_or_default()
        .chunks(2)
        .filter_map(|pair| pair[0].bytes().map(<[u8]>::to_vec))
        .collect();
    let mut request = request("HPEXPIRETIME", name, "FIELDS");
    request.push(fields.len().to_string().into_bytes());
    request.extend(fields);
    peer.ask(&request)
}
