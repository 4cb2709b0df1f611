//! Calls of another node about migrations, over HTTP with the token of this one. Opens sockets.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use keystead_cluster::{MigrationId, Node};
use keystead_commands::hub::endpoint;
use keystead_core::{Code, Error, Result};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::bounds::{MIGRATION_CALL_TIMEOUT, MIGRATION_MESSAGE_BYTES_MAX};
use crate::settings::Token;

/// The header with the name of the cluster: a node of another one refuses the call.
pub(crate) const CLUSTER_HEADER: &str = "keystead-cluster";

/// The header with the message of a response that has data as its body.
pub(crate) const MESSAGE_HEADER: &str = "keystead-migration";

/// The header with the format of what nodes send each other about migrations, and the format of this version.
pub(crate) const FORMAT_HEADER: &str = "keystead-migration-format";
pub(crate) const FORMAT: &str = "1";

/// The header with the rate at which a node takes slots in, from an operator: bytes a second, 0 for no limit.
pub(crate) const RATE_HEADER: &str = "keystead-migration-rate";

/// The path of all calls.
pub(crate) const PATH: &str = "/admin/cluster";

/// The path of a call about one migration.
pub(super) fn path_of(id: MigrationId, action: &str) -> String {
    format!("{PATH}/migrations/{}/{action}", id.0)
}

/// A node, with a connection that is used again.
pub(crate) struct Peer {
    node: Node,
    cluster: String,
    authorization: Option<HeaderValue>,
    rate: Option<u64>,
    connection: Option<SendRequest<Full<Bytes>>>,
}

/// A response.
pub(crate) struct Answered {
    /// The message in its header, if there is one.
    pub(crate) message: Option<Value>,
    pub(crate) body: Bytes,
}

impl Peer {
    pub(crate) fn new(node: Node, cluster: &str, token: Option<&Token>) -> Peer {
        let authorization = token.and_then(|token| {
            let mut value = HeaderValue::try_from(token.bearer()).ok()?;
            value.set_sensitive(true);
            Some(value)
        });
        Peer { node, cluster: cluster.to_owned(), authorization, rate: None, connection: None }
    }

    /// Names in every call how fast it may take slots in.
    pub(crate) fn with_rate(mut self, bytes_per_second: u64) -> Peer {
        self.rate = Some(bytes_per_second);
        self
    }

    /// Calls the node. An error says what the node said, or that it cannot be reached; a call may be repeated.
    pub(crate) async fn call(&mut self, method: Method, path: &str, body: Vec<u8>) -> Result<Answered> {
        match timeout(MIGRATION_CALL_TIMEOUT, self.call_now(method, path, body)).await {
            Ok(answered) => {
                if answered.is_err() {
                    self.connection = None;
                }
                answered
            }
            Err(_) => {
                self.connection = None;
                Err(self.unreachable(&format!("no response in {} s", MIGRATION_CALL_TIMEOUT.as_secs())))
            }
        }
    }

    async fn call_now(&mut self, method: Method, path: &str, body: Vec<u8>) -> Result<Answered> {
        let request = self.request(method, path, body)?;
        if self.connection.as_ref().is_none_or(|connection| !connection.is_ready()) {
            self.connection = Some(self.connect().await?);
        }
        let Some(connection) = &mut self.connection else { return Err(self.unreachable("no connection")) };
        let sent = connection.send_request(request).await;
        let response = sent.map_err(|error| self.unreachable(&error.to_string()))?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, MIGRATION_MESSAGE_BYTES_MAX).collect().await;
        let body = body.map_err(|error| self.unreachable(&error.to_string()))?.to_bytes();
        if head.status != StatusCode::OK {
            let said: Value = serde_json::from_slice(&body).unwrap_or_default();
            let words = said["error"]["message"].as_str().unwrap_or("an error without a message").to_owned();
            let message = format!("node '{}' says: {words} ({})", self.node.id, head.status.as_u16());
            let code = match said["error"]["code"].as_str() {
                Some("gone") => Code::Gone,
                Some("unsupported") => Code::Unsupported,
                _ => Code::StoreUnavailable,
            };
            return Err(Error::new(code, message));
        }
        let message = head.headers.get(MESSAGE_HEADER).and_then(|value| value.to_str().ok());
        let message = message.and_then(|text| serde_json::from_str(text).ok());
        Ok(Answered { message, body })
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>> {
        let Some(address) = endpoint(&self.node.http).filter(|_| self.node.http.starts_with("http://"))
        else {
            return Err(self.unreachable("slots are moved over http:// only"));
        };
        let connecting = timeout(Duration::from_secs(2), TcpStream::connect(address)).await;
        let stream = connecting.map_err(|_| self.unreachable("no connection in 2 s"))?;
        let stream = stream.map_err(|error| self.unreachable(&error.to_string()))?;
        let _ = stream.set_nodelay(true);
        let (sender, connection) =
            handshake(TokioIo::new(stream)).await.map_err(|error| self.unreachable(&error.to_string()))?;
        tokio::spawn(connection);
        Ok(sender)
    }

    fn request(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Request<Full<Bytes>>> {
        let authority = self.node.http.strip_prefix("http://").unwrap_or_default().trim_end_matches('/');
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, authority)
            .header(CLUSTER_HEADER, &self.cluster)
            .header(FORMAT_HEADER, FORMAT)
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| Error::new(Code::Internal, error.to_string()))?;
        if let Some(rate) = self.rate {
            request.headers_mut().insert(RATE_HEADER, HeaderValue::from(rate));
        }
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        Ok(request)
    }

    fn unreachable(&self, why: &str) -> Error {
        let message = format!("node '{}' at {} does not answer: {why}", self.node.id, self.node.http);
        Error::new(Code::StoreUnavailable, message)
    }
}
