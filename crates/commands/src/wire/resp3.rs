//! The RESP3 encoder. It touches nothing.

use super::resp2::{bulk, int, line};
use crate::number::format_float;
use crate::reply::Reply;

/// Appends a reply.
pub fn encode(reply: &Reply, out: &mut Vec<u8>) {
    match reply {
        Reply::Ok => out.extend_from_slice(b"+OK\r\n"),
        Reply::Status(text) => line(b'+', text.as_bytes(), out),
        Reply::Int(value) => int(b':', *value, out),
        Reply::Bulk(bytes) => bulk(bytes, out),
        Reply::Nil | Reply::NilArray => out.extend_from_slice(b"_\r\n"),
        Reply::Array(items) => aggregate(b'*', items, out),
        Reply::Set(items) => aggregate(b'~', items, out),
        Reply::Push(items) => aggregate(b'>', items, out),
        Reply::Map(pairs) | Reply::Dict(pairs) => {
            int(b'%', pairs.len() as i64, out);
            for (name, value) in pairs {
                encode(name, out);
                encode(value, out);
            }
        }
        Reply::Pairs(pairs) => {
            int(b'*', pairs.len() as i64, out);
            for (first, second) in pairs {
                int(b'*', 2, out);
                encode(first, out);
                encode(second, out);
            }
        }
        Reply::Double(value) => line(b',', format_float(*value).as_bytes(), out),
        Reply::Number(text) => line(b',', text.as_bytes(), out),
        Reply::BigNumber(text) => line(b'(', text.as_bytes(), out),
        Reply::Bool(yes) => out.extend_from_slice(if *yes { b"#t\r\n" } else { b"#f\r\n" }),
        Reply::Verbatim(text) => {
            int(b'=', text.len() as i64 + 4, out);
            out.extend_from_slice(b"txt:");
            out.extend_from_slice(text.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        Reply::Several(replies) => replies.iter().for_each(|reply| encode(reply, out)),
        Reply::Error(fail) => line(b'-', fail.line().as_bytes(), out),
    }
}

fn aggregate(mark: u8, items: &[Reply], out: &mut Vec<u8>) {
    int(mark, items.len() as i64, out);
    items.iter().for_each(|item| encode(item, out));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::shown;

    #[test]
    fn pairs_and_numbers_have_a_form_of_their_own() {
        let pairs = Reply::Pairs(vec![(Reply::bulk(b"a"), Reply::Double(1.5))]);
        for (reply, resp2, resp3) in [
            (pairs, "*2 $1 a $3 1.5", "*1 *2 $1 a ,1.5 "),
            (Reply::Pairs(Vec::new()), "*0", "*0 "),
            (Reply::Number("0.10".into()), "$4 0.10", ",0.10 "),
            (Reply::BigNumber("123".into()), "$3 123", "(123 "),
        ] {
            let mut out = Vec::new();
            encode(&reply, &mut out);
            assert_eq!(
                (shown(&reply).as_str(), String::from_utf8_lossy(&out).replace("\r\n", " ").as_str()),
                (resp2, resp3)
            );
        }
    }
}
