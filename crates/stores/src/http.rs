//! Requests over HTTP/1.1 to one of several equal servers, on connections that are kept. Opens sockets.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
#[cfg(feature = "etcd")]
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::header::{HOST, HeaderValue};
#[cfg(feature = "etcd")]
use hyper::{Method, StatusCode, Uri};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use keystead_core::{Code, Error};

use crate::bounds::{REST_IDLE_MAX, REST_REPLY_BYTES_MAX};
use crate::net::{self, Address, Tls};

type Sender = SendRequest<Full<Bytes>>;

/// Why a request has no response.
pub enum Failure {
    /// It did not reach a server.
    NotSent(String),
    /// It may have reached a server.
    Lost(String),
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        match failure {
            Failure::NotSent(message) => Error::new(Code::StoreUnavailable, message),
            Failure::Lost(message) => Error::unknown(Code::StoreUnavailable, message),
        }
    }
}

/// Why a call of a server that requires a token failed.
#[cfg(any(feature = "denokv", feature = "etcd"))]
pub(crate) enum CallError {
    /// The token is not valid, or no longer: nothing was done.
    Token,
    Error(Error),
}

/// Equal servers: a request goes to any of them.
pub struct Http {
    addresses: Vec<Address>,
    tls: Option<Tls>,
    patience: Duration,
    /// The server that is tried first: the one that worked last.
    first: AtomicUsize,
    idle: Mutex<Vec<Sender>>,
}

impl fmt::Display for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<String> = self.addresses.iter().map(Address::to_string).collect();
        f.write_str(&addresses.join(", "))
    }
}

impl Http {
    /// Servers at these addresses. A call may take as long as `patience`.
    #[must_use]
    pub fn new(addresses: Vec<Address>, tls: Option<Tls>, patience: Duration) -> Http {
        Http { addresses, tls, patience, first: AtomicUsize::new(0), idle: Mutex::default() }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Sender>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends JSON, and returns the status and the body of the response.
    #[cfg(feature = "etcd")]
    pub(crate) async fn post(
        &self,
        path: &'static str,
        authorization: Option<HeaderValue>,
        body: Vec<u8>,
    ) -> Result<(StatusCode, Bytes), Failure> {
        let mut request = Request::new(Full::new(body.into()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::from_static(path);
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(mut authorization) = authorization {
            authorization.set_sensitive(true);
            headers.insert(AUTHORIZATION, authorization);
        }
        let (head, body) = self.call(request).await?.into_parts();
        Ok((head.status, body))
    }

    /// Sends a request whose URI is a path, and returns the response with its whole body.
    ///
    /// # Errors
    /// When there is no such response in time.
    pub async fn call(&self, request: Request<Full<Bytes>>) -> Result<Response<Bytes>, Failure> {
        self.within(self.send(request)).await
    }

    /// Sends a request whose URI is a path, and returns the response with at most so many bytes of its body. What is beyond them is not read.
    ///
    /// # Errors
    /// When there is no response in time.
    #[cfg(feature = "http")]
    pub async fn call_cut(
        &self,
        request: Request<Full<Bytes>>,
        bytes_max: usize,
    ) -> Result<Response<Bytes>, Failure> {
        let call = async {
            let (response, sender) = self.head(request).await?;
            let (head, mut body) = response.into_parts();
            let mut bytes = Vec::new();
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|_| Failure::Lost(format!("the connection to {self} was lost")))?;
                let data = frame.data_ref().map_or(&[][..], |data| data);
                bytes.extend_from_slice(&data[..data.len().min(bytes_max - bytes.len())]);
                if bytes.len() == bytes_max {
                    // The connection ends with what was not read.
                    return Ok(Response::from_parts(head, bytes.into()));
                }
            }
            self.keep(sender);
            Ok(Response::from_parts(head, bytes.into()))
        };
        self.within(call).await
    }

    async fn within<T>(&self, call: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        match tokio::time::timeout(self.patience, call).await {
            Ok(result) => result,
            Err(_) => Err(Failure::Lost(format!("{self} did not reply within {:?}", self.patience))),
        }
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Bytes>, Failure> {
        let (response, sender) = self.head(request).await?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, REST_REPLY_BYTES_MAX).collect().await;
        let body = body.map_err(|_| Failure::Lost(format!("the connection to {self} was lost")))?;
        self.keep(sender);
        Ok(Response::from_parts(head, body.to_bytes()))
    }

    /// Keeps a connection for the next request.
    fn keep(&self, sender: Sender) {
        let mut idle = self.idle();
        if idle.len() < REST_IDLE_MAX && !sender.is_closed() {
            idle.push(sender);
        }
    }

    /// Sends a request, and returns the response whose body has not been read.
    async fn head(&self, mut request: Request<Full<Bytes>>) -> Result<(Response<Incoming>, Sender), Failure> {
        // The servers are equal, and so is the name by which they are called.
        if !request.headers().contains_key(HOST) {
            let host =
                self.addresses.first().and_then(|address| HeaderValue::from_str(&address.to_string()).ok());
            request.headers_mut().insert(HOST, host.unwrap_or_else(|| HeaderValue::from_static("localhost")));
        }
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
                    Some(_) => return Err(Failure::NotSent(format!("{self} closed the connection"))),
                    None => {
                        let advice = net::lost_advice(is_new, self.tls.as_ref());
                        return Err(Failure::Lost(format!(
                            "the connection to {self} was lost{advice} ({error:?})"
                        )));
                    }
                },
            };
            return Ok((response, sender));
        }
    }

    async fn connect(&self) -> Result<Sender, Failure> {
        let first = self.first.load(Ordering::Relaxed);
        let mut why = Vec::new();
        for i in (0..self.addresses.len()).map(|i| (first + i) % self.addresses.len()) {
            match net::connect(&self.addresses[i], self.tls.as_ref()).await {
                Ok(stream) => {
                    self.first.store(i, Ordering::Relaxed);
                    let shaken = handshake(TokioIo::new(stream)).await;
                    let (sender, connection) =
                        shaken.map_err(|_| Failure::NotSent(format!("no HTTP connection to {self}")))?;
                    // Its error is also the error of the request under way.
                    tokio::spawn(async { drop(connection.await) });
                    return Ok(sender);
                }
                Err(error) => why.push(error),
            }
        }
        Err(Failure::NotSent(why.join("; ")))
    }

    /// Closes the connections that no call uses.
    pub fn close(&self) {
        self.idle().clear();
    }
}
