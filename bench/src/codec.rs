//! Parsing requests: our parser compared with the crate redis-protocol, which returns the same frames as ranges of the buffer.
//!
//! The crate parses frames only. It does not do what a server also needs: inline commands, Redis's bounds and error texts, and
//! continuing in the middle of a request whose end arrives later.

use keystead_commands::wire::request::{Bounds, Parser};
use redis_protocol::resp2::decode::decode_range;

use crate::report::{beside, ns_per_operation};

const REQUESTS: usize = 16;
const OPERATIONS: usize = 1_600_000;

pub(crate) fn run() {
    for (label, value_bytes) in [("SET, 16 in a pipeline, 3 bytes", 3), ("SET, 16 in a pipeline, 1 KB", 1024)]
    {
        let value = "x".repeat(value_bytes);
        let request = format!("*3\r\n$3\r\nSET\r\n$12\r\nkey:00001234\r\n${value_bytes}\r\n{value}\r\n");
        let pipeline = request.repeat(REQUESTS).into_bytes();
        let times = |read: fn(&[u8])| {
            ns_per_operation(1, OPERATIONS, |_, count| (0..count / REQUESTS).for_each(|_| read(&pipeline)))
        };
        beside(label, "redis-protocol", || times(ours), || times(theirs));
    }
}

fn ours(pipeline: &[u8]) {
    let bounds = Bounds { bulk_bytes_max: 512 * 1024 * 1024, trusted: true };
    let mut parser = Parser::default();
    let mut at = 0;
    while let Ok(Some(len)) = parser.read(&pipeline[at..], bounds) {
        assert_eq!(parser.args(&pipeline[at..]).len(), 3);
        parser.finish();
        at += len;
    }
    assert_eq!(at, pipeline.len());
}

fn theirs(pipeline: &[u8]) {
    let mut at = 0;
    while let Ok(Some((frame, len))) = decode_range(&pipeline[at..]) {
        std::hint::black_box(&frame);
        at += len;
    }
    assert_eq!(at, pipeline.len());
}
