//! Replies of the upstream as ours, so that there is one encoder. Pure.

use keystead_commands::Reply;
use keystead_commands::errors::Fail;
use keystead_model::Bytes;
use keystead_model::value::Str;
use keystead_stores::redis::Value;

/// A reply of the upstream.
pub(super) fn reply(value: Value) -> Reply {
    let pair = |(name, item)| (reply(name), reply(item));
    match value {
        Value::Nil => Reply::Nil,
        Value::Int(number) => Reply::Int(number),
        Value::BulkString(bytes) => bulk(bytes),
        Value::Array(items) => Reply::Array(items.into_iter().map(reply).collect()),
        Value::SimpleString(text) => Reply::Status(text.into()),
        Value::Okay => Reply::Ok,
        Value::Map(pairs) => Reply::Map(pairs.into_iter().map(pair).collect()),
        Value::Set(items) => Reply::Set(items.into_iter().map(reply).collect()),
        Value::Double(number) => Reply::Double(number),
        Value::Boolean(yes) => Reply::Bool(yes),
        Value::VerbatimString { text, .. } => Reply::Verbatim(text),
        Value::Attribute { data, .. } => reply(*data),
        Value::Push { data, .. } => Reply::Push(data.into_iter().map(reply).collect()),
        Value::ServerError(error) => Reply::Error(Fail::text(match error.details() {
            Some(details) => format!("{} {details}", error.code()),
            None => error.code().to_owned(),
        })),
        // The others are of RESP3, which connections to an upstream do not speak.
        _ => Reply::Nil,
    }
}

fn bulk(bytes: Vec<u8>) -> Reply {
    Reply::Bulk(Str::sharing(Bytes::from(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_keep_their_kind() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let map = Value::Map(vec![(text("f"), Value::Double(1.5))]);
        for (value, expected) in [
            (Value::Okay, Reply::Ok),
            (Value::SimpleString("PONG".into()), Reply::status("PONG")),
            (Value::Int(-7), Reply::Int(-7)),
            (Value::BulkString(vec![0, 255]), Reply::bulk(&[0, 255])),
            (Value::Array(vec![Value::Nil, text("a")]), Reply::Array(vec![Reply::Nil, Reply::bulk(b"a")])),
            (map, Reply::Map(vec![(Reply::bulk(b"f"), Reply::Double(1.5))])),
        ] {
            assert_eq!(reply(value), expected);
        }
    }
}
