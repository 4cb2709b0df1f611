//! One request to a running server and its response, over a minimal HTTP/1.1. Touches a socket.
//!
//! A response of our server is complete and has a length; anything else is recognised by its first bytes. A backup may take long, so
//! `probe` finds out first whether the address speaks HTTP.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};

use keystead_core::{Code, Error, Result, Stopwatch};

use crate::bounds::{CONNECT_TIMEOUT, PROBE_TIMEOUT, RESPONSE_BYTES_MAX, SILENCE};
use crate::failure::{failure, io_words};
use crate::listen::reachable;
use crate::settings::{Listen, Settings, Token};

/// How every response begins.
const HTTP: &[u8] = b"HTTP/1.";

const ENDED: &str = "the connection ended without a response";

/// The response of the server.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) body: String,
}

/// The addresses of the running server.
pub(super) fn addresses(settings: &Settings) -> Result<Vec<SocketAddr>> {
    let listen = &settings.http;
    let fix = "name the address of the running server, for example --http 127.0.0.1:8080";
    let (host, port) = match listen {
        Listen::At { host, port } if *port != 0 => (host.as_str(), *port),
        _ => return Err(failure(format_args!("--http {listen} is not an address to connect to"), fix)),
    };
    let found = (host, port).to_socket_addrs();
    let found = found
        .map_err(|e| failure(format_args!("--http {listen}: the host is unknown ({})", io_words(&e)), fix))?;
    Ok(found.map(reachable).collect())
}

/// Connects to the first of these addresses that answers.
pub(super) fn connect(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut failed = io::Error::from(ErrorKind::AddrNotAvailable);
    for address in addresses {
        match TcpStream::connect_timeout(address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Checks that what listens there speaks HTTP, within [`PROBE_TIMEOUT`] and without sending the token.
pub(super) fn probe(stream: TcpStream) -> io::Result<()> {
    let start = get_healthz(stream, HTTP.len())?;
    if start.len() < HTTP.len() { Err(io::Error::new(ErrorKind::UnexpectedEof, ENDED)) } else { Ok(()) }
}

/// The response to `GET /healthz`, which needs no token, within [`PROBE_TIMEOUT`].
pub(super) fn health(stream: TcpStream) -> io::Result<Response> {
    parse(&get_healthz(stream, RESPONSE_BYTES_MAX as usize)?)
}

/// Sends `GET /healthz` and reads until the end of the response, or `bytes_max` of it.
fn get_healthz(mut stream: TcpStream, bytes_max: usize) -> io::Result<Vec<u8>> {
    let watch = Stopwatch::start();
    let host = stream.peer_addr()?;
    stream.set_write_timeout(Some(PROBE_TIMEOUT))?;
    stream.write_all(
        format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let (mut response, mut buffer) = (Vec::new(), [0; 1024]);
    while response.len() < bytes_max {
        let left = PROBE_TIMEOUT.checked_sub(watch.elapsed()).filter(|left| !left.is_zero());
        stream.set_read_timeout(Some(left.ok_or(ErrorKind::TimedOut)?))?;
        match stream.read(&mut buffer)? {
            0 => break,
            read => response.extend_from_slice(&buffer[..read]),
        }
        check_start(&response)?;
    }
    Ok(response)
}

/// The error for the user when what listens at the address of the server does not answer as HTTP.
pub(super) fn not_http(server: &Listen, error: &io::Error) -> Error {
    let what = match error.kind() {
        io::ErrorKind::InvalidData => format!("what answers at {server} does not speak HTTP"),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            let seconds = PROBE_TIMEOUT.as_secs();
            format!("what listens at {server} does not answer an HTTP request within {seconds} s")
        }
        _ => format!("what listens at {server} does not answer an HTTP request ({})", io_words(error)),
    };
    let fix = "name the address after \"http\" in the server's ready block with --http";
    Error::new(Code::StoreUnavailable, format!("{what}: {fix}"))
}

/// Rejects a response as soon as it cannot be HTTP.
fn check_start(response: &[u8]) -> io::Result<()> {
    let seen = response.len().min(HTTP.len());
    if response[..seen] == HTTP[..seen] { Ok(()) } else { Err(no_http()) }
}

fn no_http() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "the response is not HTTP")
}

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Post,
}

/// Posts JSON and waits for the response without a timeout. `waiting` is called about once per second meanwhile.
pub(super) fn post(
    stream: TcpStream,
    path: &str,
    token: Option<&Token>,
    body: &str,
    waiting: impl FnMut(),
) -> io::Result<Response> {
    send(stream, Method::Post, path, token, body, waiting)
}

/// Sends a request, and waits as [`post`] does. A `GET` has no body.
pub(super) fn send(
    mut stream: TcpStream,
    method: Method,
    path: &str,
    token: Option<&Token>,
    body: &str,
    mut waiting: impl FnMut(),
) -> io::Result<Response> {
    let (host, length) = (stream.peer_addr()?, body.len());
    let authorization = token.map(Token::authorization).unwrap_or_default();
    let request = match method {
        Method::Get => {
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{authorization}\r\n")
        }
        Method::Post => format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             {authorization}Content-Length: {length}\r\n\r\n{body}"
        ),
    };
    stream.write_all(request.as_bytes())?;
    stream.set_read_timeout(Some(SILENCE))?;
    let (mut response, mut buffer) = (Vec::new(), [0; 4096]);
    let mut limited = stream.take(RESPONSE_BYTES_MAX);
    loop {
        match limited.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => {
                response.extend_from_slice(&buffer[..read]);
                check_start(&response)?;
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => waiting(),
            Err(e) => return Err(e),
        }
    }
    parse(&response)
}

fn parse(response: &[u8]) -> io::Result<Response> {
    let text = String::from_utf8_lossy(response);
    if text.is_empty() {
        return Err(io::Error::new(ErrorKind::UnexpectedEof, ENDED));
    }
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(no_http)?;
    let mut words = head.split(' ');
    let is_http = words.next().is_some_and(|version| version.starts_with("HTTP/1."));
    let status = words.next().and_then(|word| word.parse().ok()).filter(|_| is_http).ok_or_else(no_http)?;
    Ok(Response { status, body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_response_has_a_status_and_a_body() {
        let response = parse(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 2\r\n\r\n{}").unwrap();
        assert_eq!(response, Response { status: 503, body: "{}".into() });
        for other in [&b""[..], b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 200 OK\r\n"] {
            assert!(parse(other).is_err());
        }
    }

    #[test]
    fn a_slow_response_is_waited_for_with_progress() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (waited, go_on) = std::sync::mpsc::channel();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\n").unwrap();
            go_on.recv().unwrap();
            stream.write_all(b"\r\n{}").unwrap();
            // Read to the end, or closing would reset the connection before the response is read.
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut request = String::new();
            stream.read_to_string(&mut request).unwrap();
            request
        });
        let token = Token::parse("s3cret").unwrap();
        let response =
            post(connect(&[address]).unwrap(), "/p", Some(&token), "[]", || waited.send(()).unwrap());
        assert_eq!(response.unwrap(), Response { status: 200, body: "{}".into() });
        let request = server.join().unwrap();
        assert!(request.starts_with("POST /p HTTP/1.1\r\n") && request.ends_with("\r\n\r\n[]"), "{request}");
        assert!(request.contains("\r\nAuthorization: Bearer s3cret\r\n"), "{request}");
    }
}
