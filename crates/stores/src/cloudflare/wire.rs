//! Calls as the items of one request to the worker's `POST /store/...`, and its response. Opens sockets.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Uri};
use keystead_core::{Code, Error, Result};
use serde::{Deserialize, Serialize};

use crate::bounds::{CLOUDFLARE_GATHERED_BYTES_MAX, CLOUDFLARE_REPLY_CHARS_MAX};
use crate::copied::copy;
use crate::gather::Carrier;
use crate::http::Http;

/// The worker.
pub(super) struct Wire {
    pub(super) http: Http,
    pub(super) host: HeaderValue,
    pub(super) authorization: HeaderValue,
    pub(super) route: Uri,
}

/// What is asked of one key.
#[derive(Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum Call {
    Read {
        key: String,
    },
    Swap {
        key: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        expected: Option<u64>,
        record: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        reclaim_ms: Option<u64>,
    },
}

impl Call {
    fn bytes(&self) -> usize {
        match self {
            Call::Read { key } => key.len(),
            Call::Swap { key, record, .. } => key.len() + record.len(),
        }
    }
}

#[derive(Serialize)]
struct Items<'a> {
    items: Vec<&'a Call>,
}

/// The reply to one call.
#[derive(Debug)]
pub(super) enum Reply {
    Record(Option<String>),
    /// With the new version.
    Swapped(u64),
    /// With the current record, if it was sent.
    Conflict(Option<Option<String>>),
}

#[derive(Deserialize)]
struct Results {
    results: Vec<Item>,
}

/// The result of an item.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Item {
    Record(Option<String>),
    Swapped(u64),
    Conflict(Current),
    Error(Failed),
    /// The response had no room for it.
    Later(bool),
}

#[derive(Deserialize)]
struct Current {
    /// Absent where the response had no room for it; `null` where there is no record.
    #[serde(default, deserialize_with = "sent")]
    record: Option<Option<String>>,
}

/// A member that is there, also as `null`.
fn sent<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(value).map(Some)
}

#[derive(Deserialize)]
struct Failed {
    code: String,
    message: String,
    outcome: Option<String>,
}

impl From<Failed> for Error {
    fn from(Failed { code, message, outcome }: Failed) -> Error {
        let code = Code::ALL.into_iter().find(|one| one.as_str() == code).unwrap_or(Code::StoreUnavailable);
        match outcome.as_deref() {
            Some("unknown") => Error::unknown(code, message),
            _ => Error::new(code, message),
        }
    }
}

impl Carrier for Wire {
    type Call = Call;
    type Reply = Reply;

    async fn send(&self, calls: Vec<Call>) -> Vec<Result<Reply>> {
        let mut replies: Vec<Option<Result<Reply>>> = calls.iter().map(|_| None).collect();
        let mut waiting: Vec<usize> = (0..calls.len()).collect();
        while !waiting.is_empty() {
            let mut bytes = 0;
            let fits = waiting.iter().take_while(|&&i| {
                bytes += calls[i].bytes();
                bytes <= CLOUDFLARE_GATHERED_BYTES_MAX
            });
            let together: Vec<usize> = waiting.drain(..fits.count().max(1)).collect();
            match self.post(together.iter().map(|&i| &calls[i]).collect()).await {
                Ok(items) => {
                    for (i, item) in together.into_iter().zip(items) {
                        match item {
                            Some(reply) => replies[i] = Some(reply),
                            None => waiting.push(i),
                        }
                    }
                }
                Err(error) => together.iter().for_each(|&i| replies[i] = Some(Err(copy(&error)))),
            }
        }
        replies.into_iter().map(|reply| reply.unwrap_or_else(|| Err(missing()))).collect()
    }
}

impl Wire {
    /// Sends items in one request. `None` is an item that the response had no room for; not all of them are.
    async fn post(&self, items: Vec<&Call>) -> Result<Vec<Option<Result<Reply>>>> {
        let count = items.len();
        let body = serde_json::to_vec(&Items { items })
            .map_err(|error| Error::new(Code::Internal, error.to_string()))?;
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.route.clone();
        let headers = request.headers_mut();
        headers.insert(HOST, self.host.clone());
        headers.insert(AUTHORIZATION, self.authorization.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let response = self.http.call(request).await?;
        if response.status() != StatusCode::OK {
            return Err(self.failure(&response));
        }
        let results = serde_json::from_slice::<Results>(response.body()).ok();
        let results = results.filter(|Results { results }| results.len() == count);
        let replies =
            results.map(|Results { results }| results.into_iter().map(reply_of).collect::<Vec<_>>());
        match replies {
            Some(replies) if replies.iter().any(Option::is_some) => Ok(replies),
            _ => Err(missing()),
        }
    }

    /// The error of a response that has no results.
    fn failure(&self, response: &Response<Bytes>) -> Error {
        #[derive(Deserialize)]
        struct Body {
            error: Failed,
        }
        let status = response.status();
        if status == StatusCode::UNAUTHORIZED {
            let message = format!("the worker at {} rejected the token", self.http);
            return Error::new(Code::StoreUnavailable, message);
        }
        if let Ok(Body { error }) = serde_json::from_slice(response.body()) {
            return Error::from(error).context(format_args!("the worker at {}", self.http));
        }
        let text: String =
            String::from_utf8_lossy(response.body()).chars().take(CLOUDFLARE_REPLY_CHARS_MAX).collect();
        let message = format!("the worker at {} replied {status} {text}", self.http);
        match status.is_client_error() {
            // It was rejected before it was executed.
            true => Error::new(Code::StoreUnavailable, message),
            false => Error::unknown(Code::StoreUnavailable, message),
        }
    }
}

fn reply_of(item: Item) -> Option<Result<Reply>> {
    Some(match item {
        Item::Record(record) => Ok(Reply::Record(record)),
        Item::Swapped(version) => Ok(Reply::Swapped(version)),
        Item::Conflict(Current { record }) => Ok(Reply::Conflict(record)),
        Item::Error(failed) => Err(failed.into()),
        Item::Later(true) => return None,
        Item::Later(false) => Err(missing()),
    })
}

fn missing() -> Error {
    Error::unknown(Code::StoreUnavailable, "the worker sent no result of a call")
}

#[cfg(test)]
mod tests {
    use keystead_core::Outcome;
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_and_results_have_the_form_of_the_worker() {
        let swap = Call::Swap {
            key: "a".to_owned(),
            expected: None,
            record: "1 - -\n5".to_owned(),
            reclaim_ms: Some(300_000),
        };
        let read = Call::Read { key: "a".to_owned() };
        assert_eq!(
            serde_json::to_value(Items { items: vec![&read, &swap] }).unwrap(),
            json!({"items": [
                {"read": {"key": "a"}},
                {"swap": {"key": "a", "record": "1 - -\n5", "reclaimMs": 300_000}},
            ]})
        );
        let results = json!({"results": [
            {"record": null}, {"record": "1 - -\n5"}, {"swapped": 7},
            {"conflict": {}}, {"conflict": {"record": null}}, {"later": true},
            {"error": {"code": "too_large", "message": "m"}},
            {"error": {"code": "new", "message": "m", "outcome": "unknown"}},
        ]});
        let results: Results = serde_json::from_value(results).unwrap();
        let replies: Vec<_> = results.results.into_iter().map(reply_of).collect();
        assert!(matches!(replies[0], Some(Ok(Reply::Record(None)))));
        assert!(matches!(&replies[1], Some(Ok(Reply::Record(Some(text)))) if text == "1 - -\n5"));
        assert!(matches!(replies[2], Some(Ok(Reply::Swapped(7)))));
        assert!(matches!(replies[3], Some(Ok(Reply::Conflict(None)))));
        assert!(matches!(replies[4], Some(Ok(Reply::Conflict(Some(None))))));
        assert!(replies[5].is_none());
        let error = |i: usize| replies[i].as_ref().unwrap().as_ref().unwrap_err();
        assert_eq!((error(6).code(), error(6).outcome()), (Code::TooLarge, Outcome::NotApplied));
        assert_eq!((error(7).code(), error(7).outcome()), (Code::StoreUnavailable, Outcome::Unknown));
    }
}
