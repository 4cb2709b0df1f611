//! What a router sends: to a node, without the headers of the client's connection; to the client, the node's response or an error
//! in the form of the API. Pure.

use hyper::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, EXPECT, HeaderMap, HeaderName, HeaderValue,
    RETRY_AFTER, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode, Uri};
use serde_json::json;

use super::incoming::NodeBody;
use super::node::{CallError, Node, Outgoing};
use crate::http::error::RETURN_BODY;
use crate::http::reply::{self, Body, Reply, UNKNOWN};
use crate::http::routes::Access;
use crate::http::upstash;

/// The header that names the node of a response.
pub(super) const NODE: HeaderName = HeaderName::from_static("keystead-node");

const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-authenticate"),
    HeaderName::from_static("proxy-authorization"),
    HeaderName::from_static("proxy-connection"),
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Removes the headers that concern one connection only.
fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// The request of a client, for a node. The token is passed on: the node decides what it may do.
pub(super) fn to_node(head: &Parts, body: Outgoing) -> Request<Outgoing> {
    let mut headers = head.headers.clone();
    remove_hop_by_hop(&mut headers);
    headers.remove(EXPECT);
    // Only the router asks for that.
    headers.remove(RETURN_BODY);
    // A body that was read has its length, one that is streamed that of the client.
    if let Outgoing::Whole(_) = body {
        headers.remove(CONTENT_LENGTH);
    }
    let mut request = Request::new(body);
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = origin_form(&head.uri);
    *request.headers_mut() = headers;
    request
}

/// A part of a client's request, in a body of its own.
pub(super) fn part(head: &Parts, method: Method, target: &str, body: Vec<u8>) -> Request<Outgoing> {
    let mut request = to_node(head, Outgoing::Whole(body.into()));
    *request.method_mut() = method;
    *request.uri_mut() = target.parse().unwrap_or_default();
    let headers = request.headers_mut();
    headers.remove(ACCEPT_ENCODING);
    // The token of a query, which the part does not have.
    if !headers.contains_key(AUTHORIZATION)
        && let Some(token) = upstash::token_in(head.uri.query())
        && let Ok(value) = HeaderValue::from_bytes(&[b"Bearer ", &token[..]].concat())
    {
        headers.insert(AUTHORIZATION, value);
    }
    request
}

fn origin_form(uri: &Uri) -> Uri {
    uri.path_and_query().cloned().map_or_else(Uri::default, Uri::from)
}

/// A node's response, passed on as it arrives.
pub(super) fn from_node(node: &Node, response: Response<NodeBody>) -> Reply {
    let (mut head, body) = response.into_parts();
    remove_hop_by_hop(&mut head.headers);
    if let Ok(id) = HeaderValue::from_str(node.id.as_str()) {
        head.headers.insert(NODE, id);
    }
    Response::from_parts(head, Body::Stream(Box::new(body)))
}

/// The text of a call that failed.
pub(super) fn words(error: &CallError, has_effect: bool) -> String {
    match error.is_unknown() && has_effect {
        true => format!("{}: it is unknown whether the request was applied", error.message()),
        false => error.message().to_owned(),
    }
}

/// The response for a call that failed.
pub(super) fn failed(access: Access, error: &CallError, has_effect: bool) -> Reply {
    let words = words(error, has_effect);
    let mut reply = match access {
        Access::Upstash => upstash::error_words(error.status(), &format!("ERR {words}")),
        Access::Open | Access::Token | Access::Documents | Access::Sync => {
            let mut body = json!({ "error": { "code": error.code(), "message": words } });
            if error.is_unknown() && has_effect {
                body["error"]["outcome"] = json!(UNKNOWN);
            }
            reply::json(error.status(), body)
        }
    };
    if let CallError::Full(_) | CallError::Unserved(_) = error {
        reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    reply
}

/// A request that a router does not serve.
pub(super) fn rejected(access: Access, status: StatusCode, code: &str, words: &str) -> Reply {
    match access {
        Access::Upstash => upstash::error_words(status, &format!("ERR {words}")),
        Access::Open | Access::Token | Access::Documents | Access::Sync => {
            reply::json(status, json!({ "error": { "code": code, "message": words } }))
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn a_request_loses_the_headers_of_its_connection_and_keeps_the_others() {
        let request = Request::builder()
            .method("PUT")
            .uri("http://router/kv/a?ifVersion=1")
            .header("connection", "close, X-Mine")
            .header("x-mine", "1")
            .header("te", "trailers")
            .header("upgrade", "h2c")
            .header("keep-alive", "5")
            .header("content-length", "3")
            .header("if-match", "\"7\"")
            .header("authorization", "Bearer s")
            .body(())
            .unwrap();
        let sent = to_node(&request.into_parts().0, Outgoing::Whole(Bytes::from_static(b"abcd")));
        assert_eq!((sent.method().as_str(), sent.uri().to_string()), ("PUT", "/kv/a?ifVersion=1".to_owned()));
        let mut names: Vec<&str> = sent.headers().keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["authorization", "if-match"]);
    }

    #[test]
    fn the_token_of_a_query_becomes_a_header() {
        let head = Request::builder().uri("/pipeline?_token=a%2Bb").body(()).unwrap().into_parts().0;
        let sent = part(&head, Method::POST, "/pipeline", b"[]".to_vec());
        assert_eq!(sent.headers()[AUTHORIZATION], "Bearer a+b");
        assert_eq!(sent.uri(), "/pipeline");
    }

    #[test]
    fn only_a_write_that_was_sent_is_of_unknown_outcome() {
        let (lost, unreachable) = (CallError::Lost("l".into()), CallError::Unreachable("u".into()));
        assert_eq!(words(&lost, true), "l: it is unknown whether the request was applied");
        assert_eq!(words(&lost, false), "l");
        assert_eq!(words(&unreachable, true), "u");
        assert_eq!(failed(Access::Documents, &unreachable, true).status(), 503);
        assert_eq!(failed(Access::Upstash, &lost, true).status(), 502);
    }
}
