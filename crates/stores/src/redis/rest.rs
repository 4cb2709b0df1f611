//! Commands over HTTP, as Upstash and Keystead accept them: one or several in a request. Opens sockets.

use std::borrow::Cow;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use data_encoding::BASE64;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use redis::{Arg, Cmd, Value};

use super::failure::Failure;
use crate::bounds::{REST_IDLE_MAX, REST_REPLY_BYTES_MAX};
use crate::net::{self, Address, Tls};

type Sender = SendRequest<Full<Bytes>>;

/// A server with the Upstash REST API.
pub(super) struct Rest {
    address: Address,
    host: HeaderValue,
    authorization: HeaderValue,
    tls: Option<Tls>,
    patience: Duration,
    idle: Mutex<Vec<Sender>>,
}

/// What is not valid in a header.
pub(super) struct NoHeader;

impl Rest {
    pub(super) fn new(
        address: Address,
        token: &str,
        tls: Option<Tls>,
        patience: Duration,
    ) -> Result<Rest, NoHeader> {
        let host = HeaderValue::from_str(&address.to_string()).map_err(|_| NoHeader)?;
        let mut authorization = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| NoHeader)?;
        authorization.set_sensitive(true);
        Ok(Rest { address, host, authorization, tls, patience, idle: Mutex::default() })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Sender>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn call(&self, command: &Cmd) -> Result<Value, Failure> {
        let (status, body) = self.post("/", &words(command)).await?;
        let reply = serde_json::from_slice(&body).ok();
        self.reply(status, reply)
    }

    /// Sends commands in one request, and returns the reply of each.
    pub(super) async fn pipeline(&self, commands: &[Cmd]) -> Result<Vec<Result<Value, Failure>>, Failure> {
        let all: Vec<_> = commands.iter().map(words).collect();
        let (status, body) = self.post("/pipeline", &all).await?;
        match serde_json::from_slice::<Vec<Reply>>(&body) {
            Ok(replies) if replies.len() == commands.len() => {
                Ok(replies.into_iter().map(|reply| self.reply(status, Some(reply))).collect())
            }
            // All of it was rejected.
            _ => match self.reply(status, serde_json::from_slice(&body).ok()) {
                Err(failure) => Err(failure),
                Ok(_) => Err(Failure::Lost(format!("{} sent one reply for a pipeline", self.address))),
            },
        }
    }

    async fn post(
        &self,
        path: &'static str,
        body: &impl serde::Serialize,
    ) -> Result<(StatusCode, Bytes), Failure> {
        let body = serde_json::to_vec(body).map_err(|error| Failure::NotSent(error.to_string()))?;
        match tokio::time::timeout(self.patience, self.send(path, body.into())).await {
            Ok(reply) => reply,
            Err(_) => {
                Err(Failure::Lost(format!("{} did not reply within {:?}", self.address, self.patience)))
            }
        }
    }

    async fn send(&self, path: &'static str, body: Bytes) -> Result<(StatusCode, Bytes), Failure> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = hyper::Method::POST;
        *request.uri_mut() = Uri::from_static(path);
        let headers = request.headers_mut();
        headers.insert(HOST, self.host.clone());
        headers.insert(AUTHORIZATION, self.authorization.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert("upstash-encoding", HeaderValue::from_static("base64"));
        loop {
            let idle = self.idle().pop();
            let is_new = idle.is_none();
            let mut sender = match idle {
                Some(sender) => sender,
                None => self.connect().await?,
            };
            let response = match sender.try_send_request(request).await {
                Ok(response) => response,
                Err(mut error) => match error.take_message() {
                    // The server has closed an idle connection: the request has not been sent.
                    Some(unsent) if !is_new => {
                        request = unsent;
                        continue;
                    }
                    Some(_) => {
                        return Err(Failure::NotSent(format!("{} closed the connection", self.address)));
                    }
                    None => {
                        let advice = net::lost_advice(is_new, self.tls.as_ref());
                        let message = format!("the connection to {} was lost{advice}", self.address);
                        return Err(Failure::Lost(message));
                    }
                },
            };
            let status = response.status();
            let lost = |_| Failure::Lost(format!("the connection to {} was lost", self.address));
            let body =
                Limited::new(response.into_body(), REST_REPLY_BYTES_MAX).collect().await.map_err(lost)?;
            let mut idle = self.idle();
            if idle.len() < REST_IDLE_MAX && !sender.is_closed() {
                idle.push(sender);
            }
            drop(idle);
            return Ok((status, body.to_bytes()));
        }
    }

    async fn connect(&self) -> Result<Sender, Failure> {
        let stream = net::connect(&self.address, self.tls.as_ref()).await.map_err(Failure::NotSent)?;
        let (sender, connection) = handshake(TokioIo::new(stream))
            .await
            .map_err(|_| Failure::NotSent(format!("no HTTP connection to {}", self.address)))?;
        tokio::spawn(async move {
            // Its error is also the error of the request under way.
            let _ = connection.await;
        });
        Ok(sender)
    }

    fn reply(&self, status: StatusCode, reply: Option<Reply>) -> Result<Value, Failure> {
        if status == StatusCode::UNAUTHORIZED {
            return Err(Failure::NotSent(format!("{} rejected the token", self.address)));
        }
        let bad =
            || Failure::Lost(format!("{} replied {status}, which is no reply of a command", self.address));
        match reply {
            Some(Reply { error: Some(error), .. }) if status.is_client_error() || status.is_success() => {
                Err(Failure::rejected(&error))
            }
            Some(Reply { result, error: None }) if status.is_success() => {
                value(result.unwrap_or(serde_json::Value::Null)).ok_or_else(bad)
            }
            _ => Err(bad()),
        }
    }

    pub(super) fn close(&self) {
        self.idle().clear();
    }
}

/// The reply of one command.
#[derive(serde::Deserialize)]
struct Reply {
    result: Option<serde_json::Value>,
    error: Option<String>,
}

fn words(command: &Cmd) -> Vec<Cow<'_, str>> {
    let word = |arg| match arg {
        Arg::Simple(bytes) => String::from_utf8_lossy(bytes),
        // Only SCAN has another kind.
        _ => Cow::Borrowed("0"),
    };
    command.args_iter().map(word).collect()
}

/// A reply whose texts are in base64.
fn value(json: serde_json::Value) -> Option<Value> {
    Some(match json {
        serde_json::Value::Null => Value::Nil,
        serde_json::Value::Number(number) => Value::Int(number.as_i64()?),
        serde_json::Value::String(text) if text == "OK" => Value::Okay,
        serde_json::Value::String(text) => Value::BulkString(BASE64.decode(text.as_bytes()).ok()?),
        serde_json::Value::Array(values) => {
            Value::Array(values.into_iter().map(value).collect::<Option<Vec<_>>>()?)
        }
        _ => return None,
    })
}
