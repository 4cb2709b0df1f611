//! The exchange of metadata: an access token for the address of the database, a token for it, and how long both are valid.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::header::{
    AUTHORIZATION, CONTENT_TYPE, DATE, HeaderMap, HeaderName, HeaderValue, LOCATION, USER_AGENT,
};
use hyper::{Method, Request, StatusCode, Uri};
use keystead_core::{Clock, Code, Error, Millis, Result, SystemClock};
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::bounds::DENOKV_RENEW_BEFORE;
use crate::date;
use crate::http::{Failure, Http};
use crate::net::{Address, Tls};

/// The versions of the protocol that this client speaks.
const VERSIONS: [u64; 2] = [2, 3];

pub(super) const AGENT: HeaderValue =
    HeaderValue::from_static(concat!("keystead/", env!("CARGO_PKG_VERSION")));

/// Where metadata is exchanged.
pub(super) struct Origin {
    pub(super) http: Arc<Http>,
    pub(super) address: Address,
    pub(super) tls: Option<Tls>,
    pub(super) patience: Duration,
    pub(super) path: Uri,
    pub(super) token: HeaderValue,
}

/// The database, as the server has announced it.
pub(super) struct Database {
    pub(super) http: Arc<Http>,
    pub(super) read: Uri,
    pub(super) write: Uri,
    pub(super) headers: HeaderMap,
    /// Until when this is valid.
    pub(super) until: Instant,
    /// How far the server's clock is ahead of the system's, in milliseconds.
    pub(super) ahead_ms: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    version: u64,
    #[serde(alias = "uuid")]
    database_id: String,
    endpoints: Vec<Endpoint>,
    token: String,
    expires_at: String,
}

#[derive(Deserialize)]
struct Endpoint {
    url: String,
    consistency: String,
}

fn unavailable(message: String) -> Error {
    Error::new(Code::StoreUnavailable, message)
}

pub(super) fn bearer(token: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

impl Origin {
    /// Asks for the database. Nothing has been read or written when it fails.
    pub(super) async fn exchange(&self) -> Result<Database> {
        let body = json!({"supportedVersions": VERSIONS}).to_string();
        let mut request = Request::new(Full::new(body.into()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.path.clone();
        let headers = request.headers_mut();
        headers.insert(AUTHORIZATION, self.token.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, AGENT);
        let response = self.http.call(request).await.map_err(|failure| match failure {
            Failure::NotSent(message) | Failure::Lost(message) => unavailable(message),
        })?;
        let http = &self.http;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                return Err(unavailable(format!("the Deno KV server at {http} rejected the access token")));
            }
            status if status.is_redirection() => {
                let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
                let location = location.unwrap_or_default();
                return Err(unavailable(format!("{http} redirects to {location}: use that address")));
            }
            status if status.is_server_error() => {
                return Err(unavailable(format!("{http} replied {status}")));
            }
            _ => return Err(self.another_kind()),
        }
        let metadata = serde_json::from_slice(response.body()).map_err(|_| self.another_kind())?;
        // The clock of a server that does not send its time is taken for ours.
        let now = SystemClock.now();
        let date = response.headers().get(DATE).and_then(|date| date::http(date.to_str().ok()?));
        self.database(&metadata, now, date.unwrap_or(now))
    }

    fn another_kind(&self) -> Error {
        unavailable(format!("the server at {} does not speak KV Connect from version 2", self.http))
    }

    fn database(&self, metadata: &Metadata, now: Millis, server_now: Millis) -> Result<Database> {
        if !VERSIONS.contains(&metadata.version) {
            return Err(self.another_kind());
        }
        let strong = metadata.endpoints.iter().find(|endpoint| endpoint.consistency == "strong");
        let endpoint = strong.and_then(|endpoint| self.resolve(&endpoint.url)).ok_or_else(|| {
            unavailable(format!("the server at {} announced no address for consistent reads", self.http))
        })?;
        let expires_at = date::parse_rfc3339(&metadata.expires_at).ok_or_else(|| self.another_kind())?;
        let valid = Duration::from_millis(expires_at.since_ms(server_now));
        let until = sleep(Duration::ZERO).deadline() + (valid - DENOKV_RENEW_BEFORE.min(valid / 10));
        let uri = |name: &str| format!("{}/{name}", endpoint.path).parse::<Uri>().ok();
        let (read, write) = (uri("snapshot_read"), uri("atomic_write"));
        let (Some(read), Some(write), Some(headers)) = (read, write, headers(metadata)) else {
            return Err(self.another_kind());
        };
        let ahead_ms = server_now.since_ms(now);
        Ok(Database { http: endpoint.http, read, write, headers, until, ahead_ms })
    }

    /// An address that may be relative to this one.
    fn resolve(&self, url: &str) -> Option<Resolved> {
        let (is_tls, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => {
                let base = self.path.path().rsplit_once('/').map_or("", |(folder, _)| folder);
                let path = match url.starts_with('/') {
                    true => url.to_owned(),
                    false => format!("{base}/{}", url.strip_prefix("./").unwrap_or(url)),
                };
                return Some(Resolved { http: Arc::clone(&self.http), path });
            }
        };
        // The token is not sent without TLS if this one was sent with it.
        let tls = match (is_tls, &self.tls) {
            (true, Some(tls)) => Some(Arc::clone(tls)),
            (true, None) => Some(crate::net::system_tls().ok()?),
            (false, None) => None,
            (false, Some(_)) => return None,
        };
        let (host, path) =
            rest.split_once('/').map_or((rest, String::new()), |(host, path)| (host, format!("/{path}")));
        let address = Address::parse(host, if is_tls { 443 } else { 80 })?;
        let http = match address == self.address && tls.is_some() == self.tls.is_some() {
            true => Arc::clone(&self.http),
            false => Arc::new(Http::new(vec![address], tls, self.patience)),
        };
        Some(Resolved { http, path })
    }
}

struct Resolved {
    http: Arc<Http>,
    path: String,
}

/// The headers of every request to the database.
fn headers(metadata: &Metadata) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, bearer(&metadata.token)?);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
    headers.insert(USER_AGENT, AGENT);
    headers.insert(HeaderName::from_static("x-denokv-version"), metadata.version.into());
    let id = HeaderValue::from_str(&metadata.database_id).ok()?;
    headers.insert(HeaderName::from_static("x-denokv-database-id"), id);
    Some(headers)
}
