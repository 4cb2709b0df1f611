//! Bodies that are too large for a router to keep, while the slots of their keys move: the node that does not own the slot any more sends them
//! back, and no client sees an error.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::Moving;
use crate::client::Http;

/// More than a router keeps of a body.
const BYTES: usize = 3 << 20;

fn document(fill: &str) -> String {
    format!("\"{}\"", fill.repeat(BYTES / fill.len()))
}

fn is_document(value: &Value, fill: &str) -> bool {
    value.as_str().is_some_and(|text| text.len() == BYTES / fill.len() * fill.len() && text.starts_with(fill))
}

/// The slot moves after the node has accepted the request and before the body is complete, with and without a length.
#[test]
fn a_body_whose_slot_moves_while_it_is_sent_reaches_the_owner() {
    let Some(mut moving) = Moving::start(&[]) else { return };
    let mut http = Http::connect(&moving.router);
    let mut on_a = (0..).map(|n| format!("/kv/large{n}"));
    let mut next = || on_a.find(|path| http.get(path).header("keystead-node") == Some("a")).unwrap();
    let (sized, chunked) = (next(), next());
    let text = document("x");
    let (first, rest) = text.split_at(BYTES / 2);
    let mut with_length = Http::connect(&moving.router);
    with_length.send_raw(
        format!("PUT {sized} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{first}", text.len())
            .as_bytes(),
    );
    let mut in_chunks = Http::connect(&moving.router);
    let chunk = |part: &str| format!("{:x}\r\n{part}\r\n", part.len());
    in_chunks.send_raw(
        format!(
            "PUT {chunked} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{}",
            chunk(first)
        )
        .as_bytes(),
    );
    moving.join();
    moving.cluster(&["rebalance"]);
    moving.cluster(&["remove", "a"]);
    with_length.send_raw(rest.as_bytes());
    in_chunks.send_raw(format!("{}0\r\n\r\n", chunk(rest)).as_bytes());
    for (mut http, path) in [(with_length, &sized), (in_chunks, &chunked)] {
        let put = http.try_receive("PUT").unwrap();
        assert_eq!(put.status, 201, "{}", put.text());
        assert_ne!(put.header("keystead-node"), Some("a"));
        let read = Http::connect(&moving.router).get(path).json();
        assert!(is_document(&read["value"], "x"), "{path}");
    }
    // Nobody but a router gets a body back.
    let mut node = Http::connect(&moving.nodes[0]);
    let refused = node.ask("PUT", &sized, &[], b"1");
    assert_eq!((refused.status, refused.header("keystead-returned-body")), (421, None));
    assert_eq!(refused.json()["error"]["code"], "moved");
}

#[test]
fn large_documents_are_written_without_an_error_while_slots_move() {
    let Some(mut moving) = Moving::start(&[]) else { return };
    let stop = AtomicBool::new(false);
    let router = super::router(&super::url(&moving.store)).start().unwrap();
    let written = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let (router, stop) = (&router, &stop);
                scope.spawn(move || {
                    let (mut http, mut count) = (Http::connect(router), 0_u64);
                    while !stop.load(Ordering::Relaxed) {
                        let path = format!("/kv/doc:{writer}:{}", count % 8);
                        let put = http.ask("PUT", &path, &[], document(&format!("{count}.")).as_bytes());
                        assert!([200, 201].contains(&put.status), "{count}: {}", put.text());
                        assert_eq!(put.json()["version"], count / 8 + 1, "written one time");
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        moving.join();
        moving.cluster(&["rebalance"]);
        moving.cluster(&["remove", "a"]);
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect::<Vec<u64>>()
    });
    let mut http = Http::connect(&router);
    for (writer, count) in written.iter().enumerate() {
        assert!(*count > 8, "{written:?}");
        for last in count - 8..*count {
            let read = http.get(&format!("/kv/doc:{writer}:{}", last % 8)).json();
            assert!(is_document(&read["value"], &format!("{last}.")), "{last}");
        }
    }
}
