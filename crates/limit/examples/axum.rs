//! A rate limit in front of an axum service: five requests a minute for each client address.
//!
//! ```text
//! cargo run -p keystead-limit --example axum
//! curl -i http://127.0.0.1:3000/                          # the sixth within a minute is 429 with Retry-After
//! curl -i --interface 127.0.0.2 http://127.0.0.1:3000/    # another address has a limit of its own
//! ```

#![allow(clippy::print_stdout, reason = "an example reports on the terminal")]

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::get;
use keystead_core::{MemoryStore, Result};
use keystead_limit::layer::client_key;
use keystead_limit::{ClientAddress, FailMode, LimitLayer, Limiter, Policy, Trust};
use tokio::net::TcpListener;

fn limits() -> Result<LimitLayer<MemoryStore>> {
    let policy = Policy::from_json(r#"{"name": "api", "limit": 5, "periodMs": "60s"}"#)?;
    let limiter = Limiter::new(policy, MemoryStore::new(), FailMode::Open).prefix("api");
    // Clients connect directly, so X-Forwarded-For is ignored. Behind one reverse proxy this is Trust::Hops(1).
    let key = client_key(ClientAddress::new(Trust::Nobody), |request| {
        request.extensions.get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip())
    });
    LimitLayer::new(Arc::new(limiter), key)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let app = Router::new().route("/", get(|| async { "hello\n" })).layer(limits()?);
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("http://{}", listener.local_addr()?);
    // This sets ConnectInfo. Without it no peer address is known, and all clients share one limit.
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
