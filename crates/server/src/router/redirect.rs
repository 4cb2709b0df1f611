//! Requests that a node did not apply, because it does not own their slot any more or is handing it over: they are sent to the owner,
//! a bounded number of times. Calls nodes.
//!
//! Invariant: only what a node said that it rejected is sent again. Its texts are compared whole, so that an error of a script's
//! own is not taken for one.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::HeaderValue;
use hyper::{Request, Response, StatusCode};
use keystead_commands::hub::endpoint;
use keystead_core::Stopwatch;
use serde_json::Value;
use tokio::time::timeout;

use super::Router;
use super::incoming::NodeBody;
use super::map::Map;
use super::node::{CallError, Kind, Node, Outgoing};
use crate::bounds::{
    ROUTER_ERROR_BYTES_MAX, ROUTER_REDIRECT_PAUSE, ROUTER_REDIRECT_TIMEOUT, ROUTER_REDIRECTS_MAX,
};
use crate::http::error::{OWNER, RETURN_BODY, RETURNED_BODY};

/// Texts of commands that were not applied because slots move. Sent again to the owner, they run.
const AGAIN: [&str; 4] = [
    "TRYAGAIN The slot is being moved to another node",
    "TRYAGAIN the slot of this key is being moved to another node: try again",
    "TRYAGAIN Slots are being moved to or from this node",
    "CLUSTERDOWN Hash slot not served",
];

/// Why a request was not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// The node at this address owns the slot: `HOST:PORT` by RESP, or a URL.
    Moved(String),
    /// The slot is being moved.
    Again,
}

impl Redirect {
    /// What an error of a command says: `MOVED 42 10.0.0.1:6379`, or that slots move.
    pub(super) fn of_line(line: &str) -> Option<Redirect> {
        if let Some(moved) = line.strip_prefix("MOVED ") {
            let (slot, address) = moved.split_once(' ')?;
            let is_address = !address.contains(' ') && address.contains(':');
            return (is_address && slot.parse::<u16>().is_ok()).then(|| Redirect::Moved(address.to_owned()));
        }
        // A transaction of which a command met the end of its slot was undone.
        let line = line.strip_prefix("EXECABORT Transaction undone: ").unwrap_or(line);
        AGAIN.contains(&line).then_some(Redirect::Again)
    }

    /// What a response says, in any form of the API.
    fn of_response(status: StatusCode, body: &[u8]) -> Option<Redirect> {
        let text = std::str::from_utf8(body).ok()?;
        if let Some(line) = text.strip_prefix('-') {
            return Redirect::of_line(line.trim_end());
        }
        let body: Value = serde_json::from_str(text).ok()?;
        let error = &body["error"];
        if let Some(line) = error.as_str() {
            // A transaction that was rejected while it was queued, as commands of it were.
            return Redirect::of_line(line);
        }
        match (status, error["code"].as_str()?) {
            (StatusCode::MISDIRECTED_REQUEST, _) => {
                Some(Redirect::Moved(error["owner"].as_str().unwrap_or_default().to_owned()))
            }
            (StatusCode::SERVICE_UNAVAILABLE, "try_again") => Some(Redirect::Again),
            _ => None,
        }
    }

    /// The node that it names, if the map has it.
    pub(super) fn named<'a>(&self, map: &'a Map) -> Option<&'a Arc<Node>> {
        let Redirect::Moved(address) = self else { return None };
        if let Some((host, port)) = endpoint(address) {
            let is_it = |node: &&Arc<Node>| node.listed.http.host == host && node.listed.http.port == port;
            return map.nodes.iter().find(is_it);
        }
        let (host, port) = address.rsplit_once(':')?;
        let port: u16 = port.parse().ok()?;
        map.nodes
            .iter()
            .find(|node| node.listed.resp.as_ref().is_some_and(|resp| resp.host == host && resp.port == port))
    }
}

/// How often and for how long a request may be sent again.
pub(super) struct Attempts {
    count: u32,
    since: Stopwatch,
}

impl Attempts {
    pub(super) fn begin() -> Attempts {
        Attempts { count: 0, since: Stopwatch::start() }
    }

    /// Counts one more, and waits if no other node was named or that has not helped: the next map may come meanwhile.
    ///
    /// # Errors
    /// When it was tried often enough.
    pub(super) async fn again(&mut self, router: &Router, is_named: bool) -> Result<(), CallError> {
        self.count += 1;
        router.maps.want_next();
        if self.count > ROUTER_REDIRECTS_MAX || self.since.elapsed() > ROUTER_REDIRECT_TIMEOUT {
            return Err(CallError::Unserved(STILL_MOVES.to_owned()));
        }
        if !is_named || self.count > 1 {
            until_next_map(router, ROUTER_REDIRECT_PAUSE * self.count.min(16)).await;
        }
        Ok(())
    }
}

pub(super) const STILL_MOVES: &str = "the slot of the request is being moved to another node: try again";

async fn until_next_map(router: &Router, most: Duration) {
    let mut changes = router.maps.changes();
    changes.mark_unchanged();
    let _ = timeout(most, changes.changed()).await;
}

/// The body of a request that may be sent again.
pub(super) enum Replay {
    Whole(Bytes),
    /// A body that is passed on as it arrives, until it was. A node that does not apply the request sends it back.
    Streamed(Option<Outgoing>),
}

impl Replay {
    fn next(&mut self) -> Option<Outgoing> {
        match self {
            Replay::Whole(bytes) => Some(Outgoing::Whole(bytes.clone())),
            Replay::Streamed(body) => body.take(),
        }
    }
}

/// Why a node has sent the body of a request back.
fn returned(response: &Response<NodeBody>) -> Option<Redirect> {
    let headers = response.headers();
    headers.get(&RETURNED_BODY)?;
    let owner = headers.get(&OWNER).and_then(|owner| owner.to_str().ok());
    Some(owner.map_or(Redirect::Again, |owner| Redirect::Moved(owner.to_owned())))
}

impl Router {
    /// Calls the owner of a slot, wherever that moves.
    pub(super) async fn call_owner(
        &self,
        slot: u16,
        mut body: Replay,
        kind: Kind,
        request: impl Fn(Outgoing) -> Request<Outgoing>,
    ) -> Result<(Arc<Node>, Response<NodeBody>), CallError> {
        let (mut attempts, mut named) = (Attempts::begin(), None::<Arc<Node>>);
        loop {
            let map = self.map();
            let owner = named.take().or_else(|| map.owner(slot).cloned());
            let node = owner.ok_or_else(|| CallError::Unserved(format!("no node owns slot {slot}")))?;
            let Some(part) = body.next() else {
                return Err(CallError::Unserved(STILL_MOVES.to_owned()));
            };
            let (was_broken, was_returned) = (node.is_broken(), matches!(part, Outgoing::Returned(_)));
            let mut request = request(part);
            if map.is_cluster() && matches!(body, Replay::Streamed(_)) {
                request.headers_mut().insert(RETURN_BODY, HeaderValue::from_static("1"));
            }
            let response = match self.call(&node, request, kind).await {
                Ok(response) => response,
                // The node that has sent it back is gone: the owner has not got all of it.
                Err(CallError::Client(_)) if was_returned => {
                    return Err(CallError::Unserved(STILL_MOVES.to_owned()));
                }
                // It may have left the cluster.
                Err(CallError::Unreachable(_)) if map.is_cluster() && !was_broken && attempts.count == 0 => {
                    attempts.again(self, false).await?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            if !map.is_cluster() {
                return Ok((node, response));
            }
            let redirect = match returned(&response) {
                Some(redirect) => {
                    let returned = Box::new(response.into_body());
                    body = Replay::Streamed(Some(Outgoing::Returned(returned)));
                    redirect
                }
                None => match redirect_of(response).await? {
                    (Some(redirect), _) => redirect,
                    (None, response) => return Ok((node, response)),
                },
            };
            self.metrics.record_redirect(&node);
            named = redirect.named(&map).filter(|named| !Arc::ptr_eq(named, &node)).cloned();
            attempts.again(self, named.is_some()).await?;
        }
    }
}

/// Whether the node rejected the request because of a slot that moves. The response can be passed on in any case.
async fn redirect_of(
    response: Response<NodeBody>,
) -> Result<(Option<Redirect>, Response<NodeBody>), CallError> {
    let may_be = matches!(
        response.status(),
        StatusCode::MISDIRECTED_REQUEST | StatusCode::SERVICE_UNAVAILABLE | StatusCode::BAD_REQUEST
    );
    if !may_be {
        return Ok((None, response));
    }
    let (head, mut body) = response.into_parts();
    let read = body.peek_whole(ROUTER_ERROR_BYTES_MAX).await;
    let bytes = read.map_err(|error| CallError::Lost(error.to_string()))?;
    let redirect = bytes.and_then(|bytes| Redirect::of_response(head.status, &bytes));
    Ok((redirect, Response::from_parts(head, body)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_texts_of_nodes_mean_that_a_request_is_sent_again() {
        let moved = |address: &str| Some(Redirect::Moved(address.to_owned()));
        assert_eq!(Redirect::of_line("MOVED 42 10.0.0.1:6379"), moved("10.0.0.1:6379"));
        for line in AGAIN {
            assert_eq!(Redirect::of_line(line), Some(Redirect::Again));
            let undone = format!("EXECABORT Transaction undone: {line}");
            assert_eq!(Redirect::of_line(&undone), Some(Redirect::Again));
        }
        for line in
            ["MOVED house", "MOVED 99999 h:1", "TRYAGAIN later", "ERR MOVED 42 h:1", "CLUSTERDOWN x", ""]
        {
            assert_eq!(Redirect::of_line(line), None, "{line}");
        }
        let of = |status: u16, body: &str| {
            Redirect::of_response(StatusCode::from_u16(status).unwrap(), body.as_bytes())
        };
        assert_eq!(
            of(421, r#"{"error":{"code":"moved","owner":"http://h:1","epoch":7}}"#),
            moved("http://h:1")
        );
        assert_eq!(of(400, r#"{"error":"MOVED 42 h:1"}"#), moved("h:1"));
        assert_eq!(of(400, "-MOVED 42 h:1\r\n"), moved("h:1"));
        assert_eq!(of(503, r#"{"error":{"code":"try_again","message":"x"}}"#), Some(Redirect::Again));
        for (status, body) in [
            (503, r#"{"error":{"code":"queue_full"}}"#),
            (400, r#"{"error":"WRONGTYPE x"}"#),
            (400, r#"{"error":{"code":"try_again"}}"#),
            (503, "x"),
        ] {
            assert_eq!(of(status, body), None, "{body}");
        }
    }
}
