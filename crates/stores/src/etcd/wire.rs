//! Calls of the JSON gateway: logins, replies and errors.

use std::sync::{Mutex, PoisonError};

use data_encoding::BASE64;
use hyper::StatusCode;
use hyper::header::HeaderValue;
use keystead_core::{Code, Error, Result};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::cas::{Reading, Stored, VersionToken};
use crate::http::{CallError, Http};

pub(super) struct Login {
    pub(super) name: String,
    pub(super) password: String,
}

pub(super) struct Wire {
    http: Http,
    login: Option<Login>,
    /// The token of the login, until the server rejects it.
    token: Mutex<Option<HeaderValue>>,
}

/// The beginning of every reply.
#[derive(Deserialize)]
pub(super) struct Header {
    #[serde(deserialize_with = "number")]
    pub(super) revision: u64,
}

/// The reply of a read.
#[derive(Deserialize)]
pub(super) struct Range {
    #[serde(default)]
    kvs: Vec<KeyValue>,
}

#[derive(Deserialize)]
struct KeyValue {
    #[serde(deserialize_with = "number")]
    mod_revision: u64,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
struct Rejected {
    #[serde(default)]
    code: u32,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
struct Authenticated {
    token: String,
}

/// JSON has no 64-bit integers: they are texts.
pub(super) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(D::Error::custom)
}

pub(super) fn base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

impl Range {
    pub(super) fn reading(self) -> Result<Reading> {
        let Some(KeyValue { mod_revision, value }) = self.kvs.into_iter().next() else {
            return Ok(Reading::default());
        };
        let bytes = BASE64.decode(value.as_bytes()).map_err(|_| unexpected())?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(Reading { stored: Some(Stored { token: VersionToken(mod_revision.into()), text }), now: None })
    }
}

fn unexpected() -> Error {
    Error::unknown(Code::StoreUnavailable, "the etcd server sent a reply of another form")
}

/// The status codes of gRPC that a reply carries.
mod grpc {
    pub(super) const INVALID_ARGUMENT: u32 = 3;
    pub(super) const NOT_FOUND: u32 = 5;
    pub(super) const PERMISSION_DENIED: u32 = 7;
    pub(super) const RESOURCE_EXHAUSTED: u32 = 8;
    pub(super) const FAILED_PRECONDITION: u32 = 9;
    pub(super) const UNAUTHENTICATED: u32 = 16;
}

impl Wire {
    pub(super) fn new(http: Http, login: Option<Login>) -> Wire {
        Wire { http, login, token: Mutex::default() }
    }

    /// Calls a method. An error of the code `gone` is a lease that has ended.
    pub(super) async fn call<T: DeserializeOwned>(&self, path: &'static str, request: &Value) -> Result<T> {
        let token = self.token().await?;
        match self.send(path, token, request).await {
            Ok(reply) => Ok(reply),
            Err(CallError::Error(error)) => Err(error),
            // Tokens expire; the request was rejected before it was executed.
            Err(CallError::Token) => {
                *self.lock() = None;
                let token = self.token().await?;
                self.send(path, token, request).await.map_err(|error| match error {
                    CallError::Error(error) => error,
                    CallError::Token => self.rejected_login(),
                })
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<HeaderValue>> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rejected_login(&self) -> Error {
        let message = format!("the etcd server at {} rejected the user name or password", self.http);
        Error::new(Code::StoreUnavailable, message)
    }

    async fn token(&self) -> Result<Option<HeaderValue>> {
        let Some(Login { name, password }) = &self.login else { return Ok(None) };
        if let Some(token) = &*self.lock() {
            return Ok(Some(token.clone()));
        }
        let request = json!({"name": name, "password": password});
        let reply: Result<Authenticated, CallError> =
            self.send("/v3/auth/authenticate", None, &request).await;
        let token = match reply {
            Ok(Authenticated { token }) => HeaderValue::from_str(&token).map_err(|_| unexpected())?,
            Err(CallError::Token) => return Err(self.rejected_login()),
            // Nothing has been written yet.
            Err(CallError::Error(error)) => return Err(Error::new(error.code(), error.message().to_owned())),
        };
        *self.lock() = Some(token.clone());
        Ok(Some(token))
    }

    async fn send<T: DeserializeOwned>(
        &self,
        path: &'static str,
        token: Option<HeaderValue>,
        request: &Value,
    ) -> Result<T, CallError> {
        let body = request.to_string().into_bytes();
        let sent = self.http.post(path, token, body).await;
        let (status, body) = sent.map_err(|failure| CallError::Error(failure.into()))?;
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|_| CallError::Error(self.another_kind()));
        }
        match serde_json::from_slice::<Rejected>(&body) {
            Ok(rejected) if rejected.code != 0 => Err(self.call_error(&rejected)),
            _ if status == StatusCode::NOT_FOUND => Err(CallError::Error(self.another_kind())),
            _ => {
                let message = format!("the etcd server at {} replied {status}", self.http);
                Err(CallError::Error(Error::unknown(Code::StoreUnavailable, message)))
            }
        }
    }

    fn another_kind(&self) -> Error {
        let message = format!(
            "the server at {} is no etcd from version 3.4, or its JSON gateway is off (--enable-grpc-gateway)",
            self.http
        );
        Error::new(Code::StoreUnavailable, message)
    }

    fn call_error(&self, rejected: &Rejected) -> CallError {
        let Rejected { code, message } = rejected;
        let text = format!("the etcd server replied {message}");
        let new = |code| CallError::Error(Error::new(code, text.clone()));
        match *code {
            grpc::UNAUTHENTICATED => CallError::Token,
            grpc::NOT_FOUND if message.contains("lease") => new(Code::Gone),
            grpc::INVALID_ARGUMENT if message.contains("authentication failed") => CallError::Token,
            grpc::INVALID_ARGUMENT if message.contains("user name is empty") => CallError::Token,
            grpc::INVALID_ARGUMENT if message.contains("too large") => new(Code::TooLarge),
            grpc::RESOURCE_EXHAUSTED if message.contains("space") => {
                let message = format!("{text}: compact and defragment it, then disarm the alarm");
                CallError::Error(Error::new(Code::StoreUnavailable, message))
            }
            grpc::INVALID_ARGUMENT
            | grpc::PERMISSION_DENIED
            | grpc::RESOURCE_EXHAUSTED
            | grpc::FAILED_PRECONDITION => new(Code::StoreUnavailable),
            _ => CallError::Error(Error::unknown(Code::StoreUnavailable, text)),
        }
    }

    pub(super) fn close(&self) {
        self.http.close();
    }
}
