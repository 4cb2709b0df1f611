//! `GET /kv`: the keys of all nodes, in parallel, as lines `{"key":"a","node":"n1"}` as they come. Calls nodes.
//!
//! The last line is `{"failed":[]}`, or names the nodes whose keys are missing. A list without it was cut off.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::Router;
use super::node::{Kind, Node};
use super::reply::{part, rejected};
use super::request::accepts_events;
use super::streams;
use crate::bounds::{ROUTER_LINE_BYTES_MAX, ROUTER_LIST_PARTS_MAX, ROUTER_PART_BYTES_MAX};
use crate::http::events::Source;
use crate::http::reply::{self, Body, Reply};
use crate::http::routes::Access;
use crate::http::upstash::TOKEN;
use crate::http::url;

const LINES: HeaderValue = HeaderValue::from_static("application/x-ndjson");

pub(super) async fn list(router: &Arc<Router>, head: &Parts) -> Reply {
    let query = match query(head.uri.query()) {
        Ok(parsed) => parsed,
        Err(why) => return rejected(Access::Documents, StatusCode::BAD_REQUEST, "bad_request", &why),
    };
    if accepts_events(&head.headers) {
        return streams::changes(router, head, &query).await;
    }
    let target = if query.is_empty() { "/kv".to_owned() } else { format!("/kv?{query}") };
    let (lines, received) = mpsc::channel(ROUTER_LIST_PARTS_MAX);
    let mut tasks = JoinSet::new();
    for node in &router.map().nodes {
        let mut request = part(head, Method::GET, &target, Vec::new());
        request.headers_mut().insert(ACCEPT, LINES);
        let (router, node, lines) = (Arc::clone(router), Arc::clone(node), lines.clone());
        tasks.spawn(async move {
            let failed = match router.call(&node, request, Kind::Call).await {
                Ok(response) => read(&node, response, &lines).await.err(),
                Err(error) => Some(error.message().to_owned()),
            };
            if let Some(why) = failed {
                // It fails if the client has disconnected.
                let _ = lines.send(Event::Failed(json!({ "node": node.id.as_str(), "message": why }))).await;
            }
        });
    }
    let mut reply = reply::bytes(StatusCode::OK, LINES, Vec::new());
    *reply.body_mut() =
        Body::Stream(Box::new(Listing { received, failed: Vec::new(), has_ended: false, _tasks: tasks }));
    reply
}

/// The query for the nodes, without the token.
fn query(query: Option<&str>) -> Result<String, String> {
    let mut kept = Vec::new();
    for (name, value) in url::parameters(query) {
        match name {
            TOKEN => continue,
            "prefix" | "values" => {}
            "limit" | "cursor" => {
                return Err(format!(
                    "the parameter '{name}' is for a node: a router streams the keys of all nodes"
                ));
            }
            _ => return Err(format!("the parameter '{name}' is unknown: this request takes prefix, values")),
        }
        kept.push(value.map_or_else(|| name.to_owned(), |value| format!("{name}={value}")));
    }
    Ok(kept.join("&"))
}

enum Event {
    Lines(Bytes),
    Failed(Value),
}

/// Reads the list of one node, and sends its lines with its name.
async fn read(
    node: &Node,
    response: hyper::Response<super::incoming::NodeBody>,
    lines: &mpsc::Sender<Event>,
) -> Result<(), String> {
    let (head, mut body) = response.into_parts();
    if head.status != StatusCode::OK || head.headers.get(CONTENT_TYPE) != Some(&LINES) {
        let body = body.whole(ROUTER_PART_BYTES_MAX).await.unwrap_or_default();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let why = body["error"]["message"].as_str().unwrap_or("this is not a node");
        return Err(format!("{} responded with {}: {why}", node.shown(), head.status.as_u16()));
    }
    let mut rest = Vec::new();
    while let Some(part) = body.next().await {
        rest.extend_from_slice(&part.map_err(|error| error.to_string())?);
        let Some(end) = rest.iter().rposition(|byte| *byte == b'\n') else {
            if rest.len() > ROUTER_LINE_BYTES_MAX {
                return Err(format!("{} sent a line over {ROUTER_LINE_BYTES_MAX} bytes", node.shown()));
            }
            continue;
        };
        let tail = rest.split_off(end + 1);
        let whole = std::mem::replace(&mut rest, tail);
        let named = named(&whole, node.id.as_str());
        if lines.send(Event::Lines(named.into())).await.is_err() {
            return Ok(());
        }
    }
    match rest.is_empty() {
        true => Ok(()),
        false => Err(format!("the list of {} was cut off", node.shown())),
    }
}

/// Adds the name of the node to each line, which is an object. A name needs no quoting.
fn named(lines: &[u8], node: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(lines.len() * 2);
    for line in lines.split(|byte| *byte == b'\n') {
        let Some(open) = line.strip_suffix(b"}") else { continue };
        out.extend_from_slice(open);
        out.extend_from_slice(b",\"node\":\"");
        out.extend_from_slice(node.as_bytes());
        out.extend_from_slice(b"\"}\n");
    }
    out
}

/// The lines of all nodes. The tasks end with it.
struct Listing {
    received: mpsc::Receiver<Event>,
    failed: Vec<Value>,
    has_ended: bool,
    _tasks: JoinSet<()>,
}

impl Source for Listing {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            if self.has_ended {
                return Poll::Ready(None);
            }
            match self.received.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Event::Lines(lines))) => return Poll::Ready(Some(Ok(lines))),
                Poll::Ready(Some(Event::Failed(node))) => self.failed.push(node),
                Poll::Ready(None) => {
                    self.has_ended = true;
                    let last = format!("{}\n", json!({ "failed": self.failed }));
                    return Poll::Ready(Some(Ok(last.into())));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_get_the_name_of_their_node() {
        let lines = b"{\"key\":\"a\"}\n{\"key\":\"b\",\"value\":{}}\n";
        let expected = "{\"key\":\"a\",\"node\":\"n1\"}\n{\"key\":\"b\",\"value\":{},\"node\":\"n1\"}\n";
        assert_eq!(String::from_utf8(named(lines, "n1")).unwrap(), expected);
    }

    #[test]
    fn the_query_is_passed_on_without_the_token() {
        assert_eq!(query(None), Ok(String::new()));
        assert_eq!(query(Some("prefix=a%26&_token=x&values=true")), Ok("prefix=a%26&values=true".to_owned()));
        for bad in ["limit=5", "cursor=1", "prefx=a"] {
            assert!(query(Some(bad)).is_err(), "{bad}");
        }
    }
}
