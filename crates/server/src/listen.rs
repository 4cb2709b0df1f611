//! Opens the socket of a listener. Touches sockets and the resolver.
//!
//! Invariant: without a token, nothing listens on an address that other machines can reach.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::Path;

use keystead_core::{Error, Result};
use tokio::net::TcpListener;

use crate::failure::{failure, io_words};
use crate::settings::Listen;

/// Opens the listener of a flag (for example `--http`), or none when it is off.
///
/// # Errors
/// `config_invalid` with the one line for the user.
pub async fn open(flag: &str, listen: &Listen, has_token: bool) -> Result<Option<TcpListener>> {
    let Listen::At { host, port } = listen else {
        return Ok(None);
    };
    let addresses: Vec<SocketAddr> = (host.as_str(), *port)
        .to_socket_addrs()
        .map_err(|e| {
            failure(
                format_args!("{flag} {listen}: the host '{host}' is unknown ({})", resolver_words(&e)),
                format_args!("use an address of this machine, for example {flag} 127.0.0.1:{port}"),
            )
        })?
        .collect();
    if !has_token && !addresses.iter().all(is_loopback) {
        return Err(failure(
            format_args!("{flag} {listen} can be reached from other machines and no token is set"),
            "set one, for example KEYSTEAD_TOKEN=$(openssl rand -hex 32), or listen on 127.0.0.1",
        ));
    }
    TcpListener::bind(&addresses[..]).await.map(Some).map_err(|e| cannot_listen(flag, listen, *port, &e))
}

/// Warns of a listener that other machines can reach in plain text.
pub(crate) fn warn_if_plain(flag: &str, address: SocketAddr, tls: Option<&Path>) {
    if is_loopback(&address) || tls.is_some() {
        return;
    }
    let fix = match flag {
        "--resp" => "set --resp-tls-cert and --resp-tls-key",
        _ => "put a proxy that speaks TLS in front of it",
    };
    tracing::warn!(
        "{flag} {address} can be reached from other machines without TLS, so the token and the data can be read on the way: {fix}"
    );
}

/// `::ffff:127.0.0.1` is a loopback address, too.
fn is_loopback(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// The address to connect to: loopback for a listener on all addresses.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn cannot_listen(flag: &str, listen: &Listen, port: u16, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::AddrInUse => failure(
            format_args!("{flag} {listen} is in use by another program"),
            format_args!(
                "stop that program, or choose another port, for example {flag} {}",
                next_port(listen)
            ),
        ),
        io::ErrorKind::AddrNotAvailable => failure(
            format_args!("{flag} {listen} is not an address of this machine"),
            format_args!("choose one that is, for example {flag} 127.0.0.1:{port}"),
        ),
        io::ErrorKind::PermissionDenied => failure(
            format_args!("{flag} {listen} needs more rights than this user has"),
            format_args!("choose a port above 1023, for example {flag} 127.0.0.1:8080"),
        ),
        _ => failure(
            format_args!("{flag} {listen} cannot be opened ({})", io_words(error)),
            format_args!("choose another address, for example {flag} 127.0.0.1:8080"),
        ),
    }
}

fn next_port(listen: &Listen) -> Listen {
    match listen {
        Listen::At { host, port } => {
            Listen::At { host: host.clone(), port: port.checked_add(1).unwrap_or(0) }
        }
        Listen::Off => Listen::Off,
    }
}

/// The reason in the resolver's error, without its prefix that the lookup failed.
fn resolver_words(error: &io::Error) -> String {
    let words = io_words(error);
    words.strip_prefix("failed to lookup address information: ").unwrap_or(&words).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn try_open(text: &str, has_token: bool) -> Result<Option<TcpListener>> {
        open("--http", &Listen::parse(text).unwrap(), has_token).await
    }

    #[tokio::test]
    async fn a_listener_that_is_off_opens_nothing() {
        assert!(try_open("off", false).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn loopback_needs_no_token() {
        for text in ["127.0.0.1:0", "127.1.2.3:0", "localhost:0", "[::ffff:127.0.0.1]:0"] {
            let listener = try_open(text, false).await.unwrap().unwrap();
            assert_ne!(listener.local_addr().unwrap().port(), 0, "{text}");
        }
    }

    #[tokio::test]
    async fn other_machines_need_a_token() {
        for text in ["0.0.0.0:0", "[::]:0", "192.168.1.2:0", "[::ffff:10.0.0.1]:0", "8.8.8.8:0"] {
            let error = try_open(text, false).await.unwrap_err().to_string();
            assert!(
                error.contains("no token is set: set one, for example KEYSTEAD_TOKEN="),
                "{text}: {error}"
            );
        }
        assert!(try_open("0.0.0.0:0", true).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn an_address_in_use_names_the_next_port() {
        let first = try_open("127.0.0.1:0", false).await.unwrap().unwrap();
        let taken = first.local_addr().unwrap();
        let error = try_open(&taken.to_string(), false).await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("--http {taken} is in use")), "{error}");
        assert!(error.ends_with(&format!("--http 127.0.0.1:{}", taken.port().wrapping_add(1))), "{error}");
    }

    #[tokio::test]
    async fn an_address_of_another_machine_is_refused() {
        let error = try_open("203.0.113.7:0", true).await.unwrap_err().to_string();
        assert!(error.contains("not an address of this machine"), "{error}");
    }
}
