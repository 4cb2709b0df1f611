//! Any bytes, in any pieces: the parser finds the same requests, and never panics or reserves much memory.

#![allow(clippy::unwrap_used, reason = "in a test a surprise is a failure")]

use keystead_commands::Command;
use keystead_commands::wire::request::{Bounds, Parser, ProtocolError};
use proptest::prelude::*;

type Request = Vec<Vec<u8>>;

/// Parses all requests when `bytes` arrive in pieces that end at these offsets.
fn read_all(bytes: &[u8], cuts: &[usize], bounds: Bounds) -> (Vec<Request>, Option<ProtocolError>) {
    let (mut parser, mut found, mut start) = (Parser::default(), Vec::new(), 0);
    for end in cuts.iter().copied().chain([bytes.len()]) {
        if end < start {
            continue;
        }
        loop {
            match parser.read(&bytes[start..end], bounds) {
                Ok(None) => break,
                Ok(Some(len)) => {
                    found.push(parser.args(&bytes[start..end]).from(0).map(<[u8]>::to_vec).collect());
                    parser.finish();
                    start += len;
                }
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}

/// A request as clients send it.
fn encoded(request: &Request) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", request.len()).into_bytes();
    for part in request {
        bytes.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
        bytes.extend_from_slice(part);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Bytes that look like requests at first.
fn almost_requests() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"*".to_vec()),
        Just(b"$".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\"".to_vec()),
        Just(b"'".to_vec()),
        Just(b"\\x".to_vec()),
        Just(b"*1\r\n$4\r\nPING\r\n".to_vec()),
        "-?[0-9]{1,20}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..8),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn bounds() -> impl Strategy<Value = Bounds> {
    (0usize..100_000, any::<bool>()).prop_map(|(bulk_bytes_max, trusted)| Bounds { bulk_bytes_max, trusted })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn pieces_change_nothing(
        bytes in almost_requests(),
        cuts in prop::collection::vec(0usize..200, 0..10),
        bounds in bounds(),
    ) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.sort_unstable();
        prop_assert_eq!(read_all(&bytes, &cuts, bounds), read_all(&bytes, &[], bounds));
    }

    #[test]
    fn the_value_sent_is_the_value_read(
        requests in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 1..8), 0..8),
        cuts in prop::collection::vec(0usize..2000, 0..20),
    ) {
        let bytes: Vec<u8> = requests.iter().flat_map(encoded).collect();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.sort_unstable();
        let bounds = Bounds { bulk_bytes_max: 1 << 20, trusted: true };
        prop_assert_eq!(read_all(&bytes, &cuts, bounds), (requests.clone(), None));
        for request in &requests {
            prop_assert_eq!(Command::new(request).args().from(0).map(<[u8]>::to_vec).collect::<Request>(), request.clone());
        }
    }
}
