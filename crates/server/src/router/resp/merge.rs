//! One reply from those of several nodes, or of several slots. Pure.
//!
//! An error of any part is the reply: what the other parts did is done.

use keystead_commands::Reply;
use keystead_commands::errors::Fail;
use keystead_commands::number::{parse_int, push_int};
use keystead_commands::session::Protocol;
use keystead_commands::wire::encode;

use super::frame;

/// How the replies become one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Merge {
    /// The sum of integers.
    Sum,
    /// All elements of arrays.
    Join,
    /// The first one.
    First,
    /// For each position the least integer.
    Least,
    /// One that is not null, if there is one. The first that is asked is random.
    Some,
    /// The elements at these (part, index), in this order.
    Pick(Vec<(u32, u32)>),
    /// A scan on the node with this tag, and the tag of the node after it.
    Scan(u16, Option<u16>),
}

/// The parts that have come, and those that are missing.
#[derive(Debug)]
pub(super) struct Gather {
    parts: Vec<Option<Vec<u8>>>,
    missing: usize,
    merge: Merge,
    protocol: Protocol,
}

impl Gather {
    pub(super) fn new(parts: usize, merge: Merge, protocol: Protocol) -> Gather {
        Gather { parts: vec![None; parts], missing: parts, merge, protocol }
    }

    /// Takes the reply of one part, and returns the whole one when it is the last.
    pub(super) fn put(&mut self, part: u32, frame: &[u8]) -> Option<Vec<u8>> {
        let place = self.parts.get_mut(part as usize)?;
        if place.replace(frame.to_vec()).is_none() {
            self.missing -= 1;
        }
        (self.missing == 0).then(|| self.merged())
    }

    /// Bytes that wait for the other parts.
    pub(super) fn bytes(&self) -> usize {
        self.parts.iter().flatten().map(Vec::len).sum()
    }

    fn merged(&self) -> Vec<u8> {
        let parts: Vec<&[u8]> = self.parts.iter().flatten().map(Vec::as_slice).collect();
        if let Some(error) = parts.iter().find(|part| part.first() == Some(&b'-')) {
            return error.to_vec();
        }
        let merged = match &self.merge {
            Merge::Sum => sum(&parts),
            Merge::Join => join(&parts),
            Merge::First => parts.first().map(|part| part.to_vec()),
            Merge::Least => least(&parts),
            Merge::Some => {
                parts.iter().find(|part| !frame::is_null(part)).or(parts.first()).map(|part| part.to_vec())
            }
            Merge::Pick(order) => pick(&parts, order),
            Merge::Scan(tag, next) => scanned(&parts, *tag, *next),
        };
        merged.unwrap_or_else(|| {
            let mut out = Vec::new();
            let fail = Fail::fixed("ERR the replies of the nodes do not fit together");
            encode(self.protocol, &Reply::Error(fail), &mut out);
            out
        })
    }
}

fn sum(parts: &[&[u8]]) -> Option<Vec<u8>> {
    let sum = parts.iter().try_fold(0_i64, |sum, part| sum.checked_add(frame::integer(part)?))?;
    Some(number(sum))
}

fn number(value: i64) -> Vec<u8> {
    let mut out = vec![b':'];
    push_int(&mut out, value);
    out.extend_from_slice(b"\r\n");
    out
}

/// The header of an array.
fn array(kind: u8, count: usize) -> Vec<u8> {
    let mut out = vec![kind];
    push_int(&mut out, count as i64);
    out.extend_from_slice(b"\r\n");
    out
}

fn join(parts: &[&[u8]]) -> Option<Vec<u8>> {
    let headers: Vec<(usize, &[u8])> = parts.iter().map(|part| frame::header(part)).collect::<Option<_>>()?;
    let kind = *parts.first()?.first()?;
    let mut out = array(kind, headers.iter().map(|(count, _)| count).sum());
    headers.iter().for_each(|(_, bytes)| out.extend_from_slice(bytes));
    Some(out)
}

fn least(parts: &[&[u8]]) -> Option<Vec<u8>> {
    let rows: Vec<Vec<&[u8]>> = parts.iter().map(|part| frame::elements(part)).collect::<Option<_>>()?;
    let count = rows.first()?.len();
    let mut out = array(b'*', count);
    for n in 0..count {
        let all: Option<Vec<i64>> = rows.iter().map(|row| frame::integer(row.get(n)?)).collect();
        out.extend_from_slice(&number(all?.into_iter().min()?));
    }
    Some(out)
}

fn pick(parts: &[&[u8]], order: &[(u32, u32)]) -> Option<Vec<u8>> {
    let rows: Vec<Vec<&[u8]>> = parts.iter().map(|part| frame::elements(part)).collect::<Option<_>>()?;
    let mut out = array(b'*', order.len());
    for (part, index) in order {
        out.extend_from_slice(rows.get(*part as usize)?.get(*index as usize)?);
    }
    Some(out)
}

/// The bits of a cursor that name the node.
const TAG_BITS: u32 = 16;

/// The cursor behind the cursor of the node with this tag, before that with the next one.
pub(in crate::router) fn next_cursor(cursor: u64, tag: u16, next: Option<u16>) -> Option<u64> {
    match (cursor, next) {
        (0, None) => Some(0),
        (0, Some(next)) => Some(u64::from(next)),
        (cursor, _) if cursor >> (64 - TAG_BITS) != 0 => None,
        (cursor, _) => Some(cursor << TAG_BITS | u64::from(tag)),
    }
}

/// The reply of a node to SCAN, with the cursor of all nodes.
pub(in crate::router) fn scanned(parts: &[&[u8]], tag: u16, next: Option<u16>) -> Option<Vec<u8>> {
    let rows = frame::elements(parts.first()?)?;
    let [cursor, found] = rows[..] else { return None };
    let cursor = u64::try_from(parse_int(frame::string(cursor)?)?).ok()?;
    let next = next_cursor(cursor, tag, next)?.to_string();
    let mut out = array(b'*', 2);
    out.extend_from_slice(format!("${}\r\n{next}\r\n", next.len()).as_bytes());
    out.extend_from_slice(found);
    Some(out)
}

/// Where a scan continues: the node, by its place among `tags`, which are sorted, and the cursor there. Nothing: it is over.
pub(in crate::router) fn resume(cursor: u64, tags: &[u16]) -> Option<(usize, u64)> {
    if cursor == 0 {
        return (!tags.is_empty()).then_some((0, 0));
    }
    let tag = (cursor & ((1 << TAG_BITS) - 1)) as u16;
    match tags.binary_search(&tag) {
        Ok(at) => Some((at, cursor >> TAG_BITS)),
        // The node has left: its keys are on others.
        Err(at) => (at < tags.len()).then_some((at, 0)),
    }
}

/// A tag for each of these names, which are the same on every router. Never 0.
pub(in crate::router) fn tags(names: &[&str]) -> Vec<u16> {
    let mut sorted: Vec<usize> = (0..names.len()).collect();
    sorted.sort_by_key(|n| names[*n]);
    let (mut tags, mut taken) = (vec![0; names.len()], std::collections::BTreeSet::new());
    for n in sorted {
        let mut tag = keystead_core::key::slot(names[n].as_bytes()).wrapping_add(1);
        while tag == 0 || !taken.insert(tag) {
            tag = tag.wrapping_add(1);
        }
        tags[n] = tag;
    }
    tags
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(merge: Merge, parts: &[&str]) -> String {
        let mut gather = Gather::new(parts.len(), merge, Protocol::Resp2);
        let mut done = None;
        // In any order.
        for (n, part) in parts.iter().enumerate().rev() {
            assert_eq!(done, None);
            done = gather.put(n as u32, part.as_bytes());
        }
        String::from_utf8(done.unwrap()).unwrap()
    }

    #[test]
    fn replies_become_one() {
        assert_eq!(merged(Merge::Sum, &[":2\r\n", ":3\r\n"]), ":5\r\n");
        assert_eq!(merged(Merge::Join, &["*1\r\n:1\r\n", "*0\r\n", "*1\r\n:2\r\n"]), "*2\r\n:1\r\n:2\r\n");
        assert_eq!(merged(Merge::First, &["+OK\r\n", "+OK\r\n"]), "+OK\r\n");
        assert_eq!(merged(Merge::Least, &["*2\r\n:1\r\n:1\r\n", "*2\r\n:0\r\n:1\r\n"]), "*2\r\n:0\r\n:1\r\n");
        assert_eq!(merged(Merge::Some, &["$-1\r\n", "$1\r\na\r\n"]), "$1\r\na\r\n");
        assert_eq!(merged(Merge::Some, &["$-1\r\n", "$-1\r\n"]), "$-1\r\n");
        let order = vec![(1, 0), (0, 0), (1, 1)];
        assert_eq!(
            merged(Merge::Pick(order), &["*1\r\n$1\r\na\r\n", "*2\r\n$-1\r\n$1\r\nb\r\n"]),
            "*3\r\n$-1\r\n$1\r\na\r\n$1\r\nb\r\n"
        );
        assert_eq!(merged(Merge::Sum, &[":2\r\n", "-ERR x\r\n"]), "-ERR x\r\n");
        assert!(merged(Merge::Sum, &[":2\r\n", "+OK\r\n"]).starts_with("-ERR the replies"));
    }

    #[test]
    fn a_scan_visits_every_node_and_its_cursor_names_the_node() {
        let tags = [7, 9, 500];
        let (mut cursor, mut visited) = (0, Vec::new());
        loop {
            let (at, within) = resume(cursor, &tags).unwrap();
            visited.push((at, within));
            // Each node is done at its second page.
            let page = if within == 0 { "$2\r\n42" } else { "$1\r\n0" };
            let merge = Merge::Scan(tags[at], tags.get(at + 1).copied());
            let reply = merged(merge, &[&format!("*2\r\n{page}\r\n*0\r\n")]);
            cursor = reply.lines().nth(2).unwrap().parse().unwrap();
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(visited, [(0, 0), (0, 42), (1, 0), (1, 42), (2, 0), (2, 42)]);
        assert_eq!(resume(42 << 16 | 8, &tags), Some((1, 0)), "a node that has left");
        assert_eq!(resume(42 << 16 | 501, &tags), None);
    }

    #[test]
    fn tags_are_those_of_the_names() {
        let abc = tags(&["a", "b", "c"]);
        assert_eq!(tags(&["c", "a", "b"]), [abc[2], abc[0], abc[1]]);
        let many: Vec<String> = (0..100).map(|n| format!("node-{n}")).collect();
        let mut tags = tags(&many.iter().map(String::as_str).collect::<Vec<_>>());
        tags.sort_unstable();
        tags.dedup();
        assert_eq!(tags.len(), 100);
    }
}
