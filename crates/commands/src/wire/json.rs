//! Replies as Upstash's JSON: `{"result":...}` or `{"error":"..."}`. It touches nothing.
//!
//! The shape is that of RESP2: strings, integers, null and arrays, never an object or a fraction under `result`, because the SDKs
//! reject those.

use data_encoding::BASE64;

use crate::number::{format_float, push_int};
use crate::reply::Reply;

/// How strings are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strings {
    /// As text; invalid UTF-8 becomes U+FFFD.
    #[default]
    Plain,
    /// In base64, except the reply `OK` and errors.
    Base64,
}

/// Appends the object of one reply.
pub fn encode(reply: &Reply, strings: Strings, out: &mut Vec<u8>) {
    if let Reply::Error(fail) = reply {
        return error(&fail.line(), out);
    }
    out.extend_from_slice(b"{\"result\":");
    match reply {
        // Within arrays it is encoded like any other string: one of the SDKs decodes it there.
        Reply::Ok => out.extend_from_slice(b"\"OK\""),
        reply => value(reply, strings, out),
    }
    out.push(b'}');
}

/// Appends the object of an error.
pub fn error(line: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"error\":");
    quoted(line.as_bytes(), out);
    out.push(b'}');
}

fn value(reply: &Reply, strings: Strings, out: &mut Vec<u8>) {
    let mut text = |bytes: &[u8]| string(bytes, strings, out);
    match reply {
        Reply::Ok => text(b"OK"),
        Reply::Status(status) => text(status.as_bytes()),
        Reply::Bulk(bytes) => text(bytes),
        Reply::Double(number) => text(format_float(*number).as_bytes()),
        Reply::Number(number) | Reply::BigNumber(number) => text(number.as_bytes()),
        Reply::Verbatim(words) => text(words.as_bytes()),
        Reply::Error(fail) => text(fail.line().as_bytes()),
        Reply::Int(number) => push_int(out, *number),
        Reply::Bool(yes) => push_int(out, i64::from(*yes)),
        Reply::Nil | Reply::NilArray => out.extend_from_slice(b"null"),
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) | Reply::Several(items) => {
            list(items, out, |item, out| value(item, strings, out));
        }
        Reply::Map(pairs) | Reply::Pairs(pairs) => list(pairs, out, |(name, item), out| {
            value(name, strings, out);
            out.push(b',');
            value(item, strings, out);
        }),
        Reply::Dict(pairs) => list(pairs, out, |(name, item), out| {
            out.push(b'[');
            value(name, strings, out);
            out.push(b',');
            value(item, strings, out);
            out.push(b']');
        }),
    }
}

fn list<T>(items: &[T], out: &mut Vec<u8>, each: impl Fn(&T, &mut Vec<u8>)) {
    out.push(b'[');
    for (n, item) in items.iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        each(item, out);
    }
    out.push(b']');
}

fn string(bytes: &[u8], strings: Strings, out: &mut Vec<u8>) {
    match strings {
        Strings::Plain => quoted(bytes, out),
        Strings::Base64 => {
            out.push(b'"');
            let start = out.len();
            out.resize(start + BASE64.encode_len(bytes.len()), 0);
            BASE64.encode_mut(bytes, &mut out[start..]);
            out.push(b'"');
        }
    }
}

fn quoted(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    match std::str::from_utf8(bytes) {
        Ok(_) => escaped(bytes, out),
        Err(_) => escaped(String::from_utf8_lossy(bytes).as_bytes(), out),
    }
    out.push(b'"');
}

/// Appends text with JSON escapes; runs of plain bytes are copied as a whole.
fn escaped(text: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut plain = 0;
    for (n, byte) in text.iter().enumerate() {
        let short = match byte {
            b'"' | b'\\' => *byte,
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0..0x20 => 0,
            _ => continue,
        };
        out.extend_from_slice(&text[plain..n]);
        plain = n + 1;
        match short {
            0 => {
                out.extend_from_slice(b"\\u00");
                out.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
            short => out.extend([b'\\', short]),
        }
    }
    out.extend_from_slice(&text[plain..]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::errors;

    fn shown(reply: &Reply, strings: Strings) -> String {
        let mut out = Vec::new();
        encode(reply, strings, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn replies_have_the_shape_of_resp2() {
        let pair = || (Reply::bulk(b"a"), Reply::Double(1.5));
        for (reply, plain, base64) in [
            (Reply::Ok, r#"{"result":"OK"}"#, r#"{"result":"OK"}"#),
            (Reply::Array(vec![Reply::Ok]), r#"{"result":["OK"]}"#, r#"{"result":["T0s="]}"#),
            (Reply::status("PONG"), r#"{"result":"PONG"}"#, r#"{"result":"UE9ORw=="}"#),
            (Reply::bulk(b""), r#"{"result":""}"#, r#"{"result":""}"#),
            (Reply::bulk(b"OK"), r#"{"result":"OK"}"#, r#"{"result":"T0s="}"#),
            (Reply::bulk(b"\xff"), "{\"result\":\"\u{fffd}\"}", r#"{"result":"/w=="}"#),
            (
                Reply::Int(i64::MIN),
                r#"{"result":-9223372036854775808}"#,
                r#"{"result":-9223372036854775808}"#,
            ),
            (Reply::Nil, r#"{"result":null}"#, r#"{"result":null}"#),
            (Reply::NilArray, r#"{"result":null}"#, r#"{"result":null}"#),
            (Reply::Bool(true), r#"{"result":1}"#, r#"{"result":1}"#),
            (
                Reply::Map(vec![pair(), pair()]),
                r#"{"result":["a","1.5","a","1.5"]}"#,
                r#"{"result":["YQ==","MS41","YQ==","MS41"]}"#,
            ),
            (Reply::Pairs(vec![pair()]), r#"{"result":["a","1.5"]}"#, r#"{"result":["YQ==","MS41"]}"#),
            (Reply::Dict(vec![pair()]), r#"{"result":[["a","1.5"]]}"#, r#"{"result":[["YQ==","MS41"]]}"#),
            (Reply::Array(vec![]), r#"{"result":[]}"#, r#"{"result":[]}"#),
            (
                Reply::Array(vec![Reply::Error(errors::SYNTAX)]),
                r#"{"result":["ERR syntax error"]}"#,
                r#"{"result":["RVJSIHN5bnRheCBlcnJvcg=="]}"#,
            ),
            (
                Reply::Error(errors::SYNTAX),
                r#"{"error":"ERR syntax error"}"#,
                r#"{"error":"ERR syntax error"}"#,
            ),
        ] {
            assert_eq!(shown(&reply, Strings::Plain), plain);
            assert_eq!(shown(&reply, Strings::Base64), base64);
        }
    }

    proptest! {
        #[test]
        fn any_text_round_trips(text in ".*") {
            let read: serde_json::Value = serde_json::from_str(&shown(&Reply::text(text.as_str()), Strings::Plain)).unwrap();
            prop_assert_eq!(read["result"].as_str(), Some(text.as_str()));
        }

        #[test]
        fn any_bytes_round_trip_in_base64(bytes: Vec<u8>) {
            let read: serde_json::Value = serde_json::from_str(&shown(&Reply::bulk(&bytes), Strings::Base64)).unwrap();
            prop_assert_eq!(BASE64.decode(read["result"].as_str().unwrap().as_bytes()).unwrap(), bytes);
        }
    }
}
