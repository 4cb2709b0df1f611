//! `SCAN` over REST through a router: one node after the other. The cursor names the node, as for Redis clients. Calls a node.

use std::sync::Arc;

use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use keystead_commands::wire::json::Strings;
use keystead_commands::{Command, errors};
use keystead_http_api::upstash::form::Form;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Router;
use super::node::Kind;
use super::reply::{failed, part};
use super::resp::merge;
use super::upstash::{Whole, bad, whole};
use crate::http::reply::{self, Reply};
use crate::http::routes::Access;
use crate::http::upstash;

/// Whether a command is SCAN.
pub(super) fn is_scan(command: &Command) -> bool {
    command.args().get(0).is_some_and(|name| name.eq_ignore_ascii_case(b"scan"))
}

/// Continues a scan on the node that its cursor names.
pub(super) async fn scan(router: &Arc<Router>, head: &Parts, command: &Command) -> Reply {
    let (args, form) = (command.args(), Form::of(&head.headers).unwrap_or_default());
    let Some(cursor) = args.get(1) else { return bad(&errors::wrong_arity("scan").line()) };
    let cursor = std::str::from_utf8(cursor).ok().and_then(|text| text.parse::<u64>().ok());
    let Some(cursor) = cursor else { return bad(&errors::INVALID_CURSOR.line()) };
    let map = router.map();
    let (order, tags) = map.scan_order();
    let Some((at, within)) = merge::resume(cursor, &tags) else {
        // The node of the cursor has left, and there is none after it.
        return ended(form);
    };
    let (node, within) = (&map.nodes[order[at]], within.to_string());
    let words = args.from(0).enumerate().map(|(n, word)| if n == 1 { within.as_bytes() } else { word });
    let words: Vec<_> = words.map(String::from_utf8_lossy).collect();
    let request = part(head, Method::POST, "/", serde_json::to_vec(&words).unwrap_or_default());
    let called = match router.call(node, request, Kind::Call).await {
        Ok(response) => whole(node, response).await,
        Err(error) => Err(error),
    };
    let Whole { status, body } = match called {
        Ok(whole) => whole,
        Err(error) => return failed(Access::Upstash, &error, false),
    };
    if status != StatusCode::OK {
        return reply::bytes(status, form.media_type(), body.to_vec());
    }
    let (tag, next) = (tags[at], tags.get(at + 1).copied());
    let continued = match form {
        Form::Resp2 => merge::scanned(&[&body], tag, next),
        Form::Json(strings) => continued(&body, strings, tag, next),
    };
    match continued {
        Some(body) => reply::bytes(StatusCode::OK, form.media_type(), body),
        None => upstash::error_words(StatusCode::BAD_GATEWAY, "ERR a node sent no result of SCAN"),
    }
}

fn ended(form: Form) -> Reply {
    let body = match form {
        Form::Resp2 => "*2\r\n$1\r\n0\r\n*0\r\n".to_owned(),
        Form::Json(strings) => serde_json::json!({ "result": [written("0", strings), []] }).to_string(),
    };
    reply::bytes(StatusCode::OK, form.media_type(), body.into_bytes())
}

/// The response to a SCAN: the cursor, and what was found.
#[derive(Deserialize, Serialize)]
struct Scanned<'a> {
    #[serde(borrow)]
    result: (String, &'a RawValue),
}

/// The response of a node with the cursor of all nodes.
fn continued(body: &[u8], strings: Strings, tag: u16, next: Option<u16>) -> Option<Vec<u8>> {
    let Scanned { result: (cursor, found) } = serde_json::from_slice(body).ok()?;
    let cursor = match strings {
        Strings::Plain => cursor.parse().ok()?,
        Strings::Base64 => {
            let text = data_encoding::BASE64.decode(cursor.as_bytes()).ok()?;
            std::str::from_utf8(&text).ok()?.parse().ok()?
        }
    };
    let next = merge::next_cursor(cursor, tag, next)?.to_string();
    serde_json::to_vec(&Scanned { result: (written(&next, strings), found) }).ok()
}

fn written(cursor: &str, strings: Strings) -> String {
    match strings {
        Strings::Plain => cursor.to_owned(),
        Strings::Base64 => data_encoding::BASE64.encode(cursor.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_of_a_node_becomes_that_of_all() {
        let next = |body: &str, strings| {
            continued(body.as_bytes(), strings, 7, Some(9)).map(|body| String::from_utf8(body).unwrap())
        };
        let plain = |body| next(body, Strings::Plain);
        let expected = format!(r#"{{"result":["{}",["a"]]}}"#, 42 << 16 | 7);
        assert_eq!(plain(r#"{"result":["42",["a"]]}"#), Some(expected));
        assert_eq!(plain(r#"{"result":["0",[]]}"#).as_deref(), Some(r#"{"result":["9",[]]}"#));
        let encoded = next(r#"{"result":["MA==",["YQ=="]]}"#, Strings::Base64);
        assert_eq!(encoded.as_deref(), Some(r#"{"result":["OQ==",["YQ=="]]}"#));
        for bad in [r#"{"result":"OK"}"#, r#"{"result":["x",[]]}"#, "{}", ""] {
            assert_eq!(plain(bad), None, "{bad}");
        }
    }
}
