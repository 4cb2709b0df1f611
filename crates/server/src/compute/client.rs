//! Calls of the storage service. Opens sockets.
//!
//! Invariant: a call says whether it may have been executed; nothing is sent again here.

use std::sync::Arc;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use keystead_core::{Code, Error, Result};
use keystead_http_api::statements::{Failure, Item, Outcome, Rows, Statement};
use keystead_stores::connect::{Authority, Failure as CallFailure, Http, Url, system_tls};
use prometheus_client::metrics::counter::Counter;

use crate::bounds::COMPUTE_CALL_TIMEOUT;
use crate::settings::Settings;
use crate::settings::value::InvalidValue;

const FORM: &str = "http://HOST:PORT or https://HOST";

/// The storage service.
pub(super) struct Storage {
    http: Http,
    path: Uri,
    host: HeaderValue,
    authorization: Option<HeaderValue>,
    pub(super) calls: Counter,
}

/// What became of a call.
pub(super) enum Called {
    /// The service has answered.
    Answered(Outcome),
    /// It was not executed.
    NotSent(Error),
    /// It may have been executed.
    Lost(Error),
}

/// The parts of a URL of a storage service.
struct Target {
    tls: bool,
    authority: Authority,
    path: String,
}

fn target(text: &str) -> Result<Target> {
    let (scheme, rest) = text.split_once(':').unwrap_or((text, ""));
    let url = Url::of(rest, FORM)?;
    let tls = match scheme {
        "http" => false,
        "https" => true,
        _ => return Err(url.bad("it is not the URL of a storage service")),
    };
    let authority = Authority::of(&url, if tls { 443 } else { 80 })?;
    if authority.username.is_some() || authority.password.is_some() {
        return Err(url.bad("the token is no part of the URL, it is --storage-token"));
    }
    if authority.addresses.len() != 1 {
        return Err(url.bad("it has one address"));
    }
    url.finish()?;
    let path = authority.path.trim_end_matches('/');
    let path = if path.is_empty() { "/statements".to_owned() } else { format!("/{path}/statements") };
    Ok(Target { tls, authority, path })
}

/// Checks a URL of a storage service.
pub(crate) fn check_url(text: &str) -> std::result::Result<String, InvalidValue> {
    match target(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => {
            Err(InvalidValue::new(format!("is not valid ({})", error.message()), format!("write {FORM}")))
        }
    }
}

impl Storage {
    pub(super) fn new(settings: &Settings, url: &str) -> Result<Storage> {
        let Target { tls, mut authority, path } = target(url)?;
        let invalid =
            |what: &str| Error::new(Code::ConfigInvalid, format!("--storage: {what}: write {FORM}"));
        let address = authority.addresses.pop().ok_or_else(|| invalid("it has no address"))?;
        let default_port = if tls { ":443" } else { ":80" };
        let host = address.to_string();
        let host = host.strip_suffix(default_port).unwrap_or(&host);
        let host = HeaderValue::from_str(host).map_err(|_| invalid("the address is not host:port"))?;
        let path = path.parse().map_err(|_| invalid("the path is not one of a URL"))?;
        let tls = match tls {
            true => Some(system_tls().map_err(|why| invalid(&why))?),
            false => None,
        };
        let authorization = settings.storage_token.as_ref().map(|token| {
            let mut value = HeaderValue::from_str(&token.bearer());
            if let Ok(value) = &mut value {
                value.set_sensitive(true);
            }
            value.map_err(|_| {
                Error::new(Code::ConfigInvalid, "--storage-token has characters that no header may have")
            })
        });
        let http = Http::new(vec![address], tls, COMPUTE_CALL_TIMEOUT);
        Ok(Storage { http, path, host, authorization: authorization.transpose()?, calls: Counter::default() })
    }

    /// Where it is.
    pub(super) fn shown(&self) -> String {
        self.http.to_string()
    }

    /// Executes an item.
    pub(super) async fn call(&self, item: &Item) -> Called {
        let body = match serde_json::to_vec(item) {
            Ok(body) => body,
            Err(error) => return Called::NotSent(Error::new(Code::Internal, error.to_string())),
        };
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.path.clone();
        let headers = request.headers_mut();
        headers.insert(HOST, self.host.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        self.calls.inc();
        let unreachable = |why: String| Error::new(Code::StoreUnavailable, format!("storage: {why}"));
        match self.http.call(request).await {
            Ok(response) => self.answered(response.status(), response.body()),
            Err(CallFailure::NotSent(why)) => Called::NotSent(unreachable(why)),
            Err(CallFailure::Lost(why)) => Called::Lost(unreachable(why)),
        }
    }

    fn answered(&self, status: StatusCode, body: &[u8]) -> Called {
        match (serde_json::from_slice::<Outcome>(body), status) {
            (_, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => Called::NotSent(Error::new(
                Code::StoreUnavailable,
                format!(
                    "storage: {} rejected the token: set --storage-token to that of the storage service",
                    self.shown()
                ),
            )),
            (Ok(Outcome::Error(failure)), _) => refused(&failure),
            (Ok(outcome), _) => Called::Answered(outcome),
            (Err(_), status) => {
                let words = format!(
                    "storage: {} answered with status {status}, and not as a storage service: check --storage",
                    self.shown()
                );
                let error = Error::new(Code::StoreUnavailable, words);
                // A proxy may say so after the service has executed it.
                if status.is_client_error() { Called::NotSent(error) } else { Called::Lost(error) }
            }
        }
    }

    /// Executes queries in one transaction. A lost connection is tried once more: nothing depends on how often they run.
    pub(super) async fn read(&self, statements: Vec<Statement>) -> Result<Vec<Rows>> {
        let count = statements.len();
        let item = Item { expect: Vec::new(), statements };
        let mut called = self.call(&item).await;
        if let Called::Lost(_) = called {
            called = self.call(&item).await;
        }
        match called {
            Called::Answered(Outcome::Results(results)) if results.len() == count => Ok(results),
            Called::Answered(_) => Err(Error::new(Code::Internal, "storage: an answer has another form")),
            Called::NotSent(error) | Called::Lost(error) => Err(error),
        }
    }
}

/// An item that the service has refused.
fn refused(Failure { code, message, outcome }: &Failure) -> Called {
    let code =
        Code::ALL.iter().copied().find(|known| known.as_str() == code).unwrap_or(Code::StoreUnavailable);
    let error = Error::new(code, format!("storage: {message}"));
    if outcome.is_some() { Called::Lost(error) } else { Called::NotSent(error) }
}

/// Shared by the parts of a compute service.
pub(super) type SharedStorage = Arc<Storage>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_one_address_and_no_token() {
        for (url, path) in [
            ("http://127.0.0.1:8090", "/statements"),
            ("http://[::1]:8090/", "/statements"),
            ("https://keystead.me.workers.dev", "/statements"),
            ("https://h/a/b", "/a/b/statements"),
        ] {
            assert_eq!(target(url).unwrap().path, path, "{url}");
        }
        for url in ["", "h", "redis://h", "http:", "http://", "http://u:p@h", "http://a,b", "http://h?x=1"] {
            assert!(check_url(url).is_err(), "{url}");
        }
    }
}
