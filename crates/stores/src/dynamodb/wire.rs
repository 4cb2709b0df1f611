//! Calls of DynamoDB's JSON protocol: signed requests, replies and exceptions.

use http_body_util::Full;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, InvalidHeaderValue};
use hyper::{Method, Request};
use keystead_core::{Clock, Code, Error, SystemClock};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::failure;
use super::sign::{Credentials, Signature, Signed, sign};
use crate::cas::{Stored, VersionToken};
use crate::http::Http;

const JSON: &str = "application/x-amz-json-1.0";
const TARGET: HeaderName = HeaderName::from_static("x-amz-target");
const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const SESSION_TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// A table on a server.
pub(super) struct Wire {
    pub(super) http: Http,
    /// The value of the `Host` header, which is signed.
    pub(super) host: String,
    pub(super) region: String,
    pub(super) table: String,
    pub(super) credentials: Credentials,
}

/// The attributes of an item that are ours. Those of an item of somebody else can have other types.
#[derive(Deserialize)]
pub(super) struct Item {
    version: Option<Attribute>,
    record: Option<Attribute>,
}

#[derive(Deserialize)]
struct Attribute {
    #[serde(rename = "N")]
    number: Option<String>,
    #[serde(rename = "S")]
    text: Option<String>,
}

impl Item {
    pub(super) fn stored(self) -> Result<Stored, Error> {
        let version = self.version.and_then(|version| version.number?.parse::<u64>().ok());
        match (version, self.record.and_then(|record| record.text)) {
            (Some(version), Some(text)) => Ok(Stored { token: VersionToken(version.into()), text }),
            _ => Err(Error::new(Code::Corrupt, "the item of the key is not one of Keystead")),
        }
    }
}

/// An exception, with which DynamoDB rejects a request.
#[derive(Deserialize)]
pub(super) struct Exception {
    #[serde(rename = "__type")]
    kind: String,
    #[serde(default, alias = "Message")]
    pub(super) message: String,
    /// The item that did not fulfil a condition.
    #[serde(rename = "Item")]
    pub(super) item: Option<Box<Item>>,
}

impl Exception {
    /// Its name, without the namespace.
    pub(super) fn name(&self) -> &str {
        self.kind.rsplit('#').next().unwrap_or_default()
    }
}

/// Why a call has no result.
pub(super) enum Failed {
    /// The request was rejected: it changed nothing.
    Rejected(Exception),
    Error(Error),
}

impl Wire {
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        operation: &str,
        request: &Value,
    ) -> Result<T, Failed> {
        let unknown = |message| Failed::Error(Error::unknown(Code::StoreUnavailable, message));
        let request = self
            .request(operation, request.to_string().into_bytes())
            .map_err(|_| Failed::Error(failure::invalid_header()))?;
        let response = self.http.call(request).await.map_err(|failure| Failed::Error(failure.into()))?;
        let status = response.status();
        let another_kind = || unknown(format!("the server at {} is no DynamoDB", self.http));
        if status.is_success() {
            return serde_json::from_slice(response.body()).map_err(|_| another_kind());
        }
        match serde_json::from_slice::<Exception>(response.body()) {
            Ok(exception) if status.is_client_error() => Err(Failed::Rejected(exception)),
            // A write that ended in an internal error may have been applied.
            Ok(exception) => Err(unknown(format!("DynamoDB replied {status} {}", exception.name()))),
            Err(_) if status.is_server_error() => Err(unknown(format!("{} replied {status}", self.http))),
            Err(_) => Err(another_kind()),
        }
    }

    fn request(
        &self,
        operation: &str,
        body: Vec<u8>,
    ) -> Result<Request<Full<hyper::body::Bytes>>, InvalidHeaderValue> {
        let target = format!("DynamoDB_20120810.{operation}");
        let signed = Signed {
            headers: &[("content-type", JSON), ("host", &self.host), ("x-amz-target", &target)],
            body: &body,
            region: &self.region,
            service: "dynamodb",
            // Of the system: the servers compare it with their own.
            at: SystemClock.now(),
        };
        let Signature { date, authorization } = sign(&self.credentials, &signed);
        let mut request = Request::new(Full::new(body.into()));
        *request.method_mut() = Method::POST;
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        headers.insert(HOST, HeaderValue::from_str(&self.host)?);
        headers.insert(TARGET, HeaderValue::from_str(&target)?);
        headers.insert(DATE, HeaderValue::from_str(&date)?);
        headers.insert(AUTHORIZATION, secret(&authorization)?);
        if let Some(token) = &self.credentials.session_token {
            headers.insert(SESSION_TOKEN, secret(token)?);
        }
        Ok(request)
    }

    /// The error of a rejected request.
    pub(super) fn error(&self, failed: Failed) -> Error {
        match failed {
            Failed::Rejected(exception) => failure::of(&exception, self),
            Failed::Error(error) => error,
        }
    }
}

fn secret(text: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut value = HeaderValue::from_str(text)?;
    value.set_sensitive(true);
    Ok(value)
}
