//! `GET /healthz`: is the process well? `GET /readyz`: should it get traffic? Touches nothing.

use bytes::Bytes;
use hyper::{Request, StatusCode};

use super::reply::{self, Reply};
use crate::VERSION;
use crate::app::App;

pub(super) fn healthz(app: &App, _: &Request<Bytes>) -> Reply {
    // By hand, so that people read the status first.
    let body = format!(
        r#"{{"status":"ok","version":"{VERSION}","uptime_seconds":{}}}"#,
        app.uptime().as_secs()
    );
    reply::json(StatusCode::OK, body)
}

pub(super) fn readyz(app: &App, _: &Request<Bytes>) -> Reply {
    if app.is_stopping() {
        reply::json(StatusCode::SERVICE_UNAVAILABLE, r#"{"status":"stopping"}"#)
    } else {
        reply::json(StatusCode::OK, r#"{"status":"ready"}"#)
    }
}
