//! An HTTP client for these tests: sends any bytes, reads whole responses and events, always with a deadline.

use std::io::ErrorKind::{ConnectionReset, UnexpectedEof};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use keystead_testkit::server::Server;
use serde_json::Value;

/// How long a response may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where requests go.
pub(crate) trait Listens {
    fn address(&self) -> SocketAddr;

    /// The `Host` of requests.
    fn host(&self) -> &str {
        "localhost"
    }

    /// The token of requests that have none.
    fn token(&self) -> Option<&str> {
        None
    }

    /// Whether it closes connections that are idle for seconds, so that a client must connect again.
    fn closes_idle_connections(&self) -> bool {
        false
    }
}

impl Listens for Server {
    fn address(&self) -> SocketAddr {
        self.http().unwrap()
    }
}

/// A keep-alive connection.
pub(crate) struct Http {
    stream: BufReader<TcpStream>,
    host: String,
    token: Option<String>,
    /// Where it connects again, if the connection was idle and is closed.
    again: Option<SocketAddr>,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Status line and headers, the names in lower case.
    pub(crate) head: Vec<String>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// The body as text.
    #[track_caller]
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The body as JSON, which its media type must be.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The text of an error, which is the whole body.
    #[track_caller]
    pub(crate) fn error(&self) -> String {
        let body = self.json();
        let object = body.as_object().unwrap_or_else(|| panic!("no object: {body}"));
        assert_eq!(object.len(), 1, "{body}");
        object["error"].as_str().unwrap_or_else(|| panic!("no error: {body}")).to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// Whether the connection ends with this response.
    pub(crate) fn closes(&self) -> bool {
        self.header("connection") == Some("close")
    }
}

impl Http {
    pub(crate) fn connect(server: &impl Listens) -> Http {
        let http = Http::try_connect(server.address()).unwrap();
        let again = server.closes_idle_connections().then(|| server.address());
        Http { host: server.host().to_owned(), token: server.token().map(str::to_owned), again, ..http }
    }

    /// Connects to a server that may have stopped.
    #[allow(dead_code, reason = "not all tests kill servers")]
    pub(crate) fn try_connect(address: impl ToSocketAddrs) -> io::Result<Http> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Http { stream: BufReader::new(stream), host: "localhost".to_owned(), token: None, again: None })
    }

    /// The beginning of a request whose other headers and body a test writes itself.
    #[allow(dead_code, reason = "few tests do")]
    pub(crate) fn head_of(&self, method: &str, target: &str) -> String {
        self.head_with(method, target, &[])
    }

    fn head_with(&self, method: &str, target: &str, headers: &[&str]) -> String {
        let has_token = headers.iter().any(|header| header.to_lowercase().starts_with("authorization:"));
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: {}\r\n", self.host);
        if let Some(token) = self.token.as_ref().filter(|_| !has_token) {
            head.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        for header in headers {
            head.push_str(header);
            head.push_str("\r\n");
        }
        head
    }

    /// Sends bytes. A server that rejects a request early may close before it has read everything; its response
    /// counts.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        let _ = self.stream.get_mut().write_all(bytes);
    }

    /// Sends a request. `headers` are whole lines without their end.
    pub(crate) fn send(&mut self, method: &str, target: &str, headers: &[&str], body: &[u8]) {
        let mut head = self.head_with(method, target, headers);
        if !body.is_empty() {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        if let Some(address) = self.again.filter(|_| self.was_closed()) {
            self.stream = Http::try_connect(address).unwrap().stream;
        }
        self.send_raw(&[head.as_bytes(), body].concat());
    }

    /// Whether the server has closed the connection meanwhile. It waits for nothing.
    fn was_closed(&mut self) -> bool {
        let stream = self.stream.get_ref();
        stream.set_nonblocking(true).unwrap();
        let is_closed = match stream.peek(&mut [0]) {
            Ok(len) => len == 0,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        };
        stream.set_nonblocking(false).unwrap();
        is_closed
    }

    /// Sends a request and waits for its response.
    #[track_caller]
    pub(crate) fn ask(&mut self, method: &str, target: &str, headers: &[&str], body: &[u8]) -> Response {
        let received = self.try_ask(method, target, headers, body);
        received.unwrap_or_else(|error| panic!("no response to {method} {target}: {error}"))
    }

    pub(crate) fn try_ask(
        &mut self,
        method: &str,
        target: &str,
        headers: &[&str],
        body: &[u8],
    ) -> io::Result<Response> {
        self.send(method, target, headers, body);
        match (self.try_receive(method), self.again) {
            // It was closed while this was on its way, unread: clients of HTTP send it again.
            (Err(error), Some(address)) if matches!(error.kind(), UnexpectedEof | ConnectionReset) => {
                self.stream = Http::try_connect(address)?.stream;
                self.send(method, target, headers, body);
                self.try_receive(method)
            }
            (received, _) => received,
        }
    }

    #[track_caller]
    pub(crate) fn post(&mut self, target: &str, body: &str) -> Response {
        self.ask("POST", target, &[], body.as_bytes())
    }

    #[track_caller]
    pub(crate) fn get(&mut self, target: &str) -> Response {
        self.ask("GET", target, &[], b"")
    }

    /// Sends JSON bodies, and compares the whole responses.
    #[track_caller]
    pub(crate) fn expect(&mut self, expected: &[(&str, &str)]) {
        for (body, text) in expected {
            let status = if text.starts_with("{\"error\"") { 400 } else { 200 };
            let response = self.post("/", body);
            assert_eq!((response.status, response.text()), (status, *text), "{body}");
        }
    }

    pub(crate) fn try_receive(&mut self, method: &str) -> io::Result<Response> {
        let (status, head) = self.head()?;
        let response = Response { status, head, body: Vec::new() };
        let len = response.header("content-length").map_or(0, |text| text.parse().unwrap());
        if response.header("transfer-encoding") == Some("chunked") && method != "HEAD" {
            let mut body = Vec::new();
            while let Some(chunk) = chunk(&mut self.stream)? {
                body.extend(chunk);
            }
            return Ok(Response { body, ..response });
        }
        let mut body = vec![0; if method == "HEAD" { 0 } else { len }];
        self.stream.read_exact(&mut body)?;
        Ok(Response { body, ..response })
    }

    fn head(&mut self) -> io::Result<(u16, Vec<String>)> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            lines.push(match line.split_once(": ") {
                Some((name, value)) => format!("{}: {value}", name.to_lowercase()),
                None => line.to_owned(),
            });
        }
        let status = lines[0].split(' ').nth(1).and_then(|text| text.parse().ok());
        Ok((status.unwrap_or_else(|| panic!("no status in {lines:?}")), lines))
    }

    /// Requests events, and waits until they begin.
    #[track_caller]
    pub(crate) fn events(mut self, target: &str, headers: &[&str]) -> Events {
        // One of the SDKs sends this body: it is ignored.
        self.send("POST", target, headers, b"[]");
        self.events_begin()
    }

    /// The events of a request that was sent.
    #[track_caller]
    pub(crate) fn events_begin(mut self) -> Events {
        let (status, head) = self.head().unwrap();
        let response = Response { status, head, body: Vec::new() };
        assert_eq!(
            (status, response.header("content-type")),
            (200, Some("text/event-stream")),
            "{response:?}"
        );
        assert_eq!(response.header("transfer-encoding"), Some("chunked"), "{response:?}");
        Events { stream: self.stream, text: String::new(), response }
    }

    /// Whether the server has closed the connection.
    pub(crate) fn is_closed(&mut self) -> bool {
        matches!(self.stream.fill_buf(), Ok([]) | Err(_))
    }
}

/// The next chunk of a body, or nothing at its end.
fn chunk(stream: &mut BufReader<TcpStream>) -> io::Result<Option<Vec<u8>>> {
    let mut size = String::new();
    if stream.read_line(&mut size)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let len = usize::from_str_radix(size.trim_end(), 16).unwrap();
    let mut chunk = vec![0; len + 2];
    stream.read_exact(&mut chunk)?;
    chunk.truncate(len);
    Ok(if len == 0 { None } else { Some(chunk) })
}

/// A stream of events.
pub(crate) struct Events {
    stream: BufReader<TcpStream>,
    text: String,
    pub(crate) response: Response,
}

impl Events {
    /// The data of the next event, or nothing when the stream has ended properly.
    #[track_caller]
    pub(crate) fn try_next(&mut self) -> io::Result<Option<String>> {
        Ok(self.try_whole()?.map(|event| {
            let lines: Vec<_> = event.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
            lines.join("\n")
        }))
    }

    /// The next event with all its lines.
    #[track_caller]
    pub(crate) fn try_whole(&mut self) -> io::Result<Option<String>> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let event = event.to_owned();
                self.text = rest.to_owned();
                return Ok(Some(event));
            }
            let Some(chunk) = chunk(&mut self.stream)? else { return Ok(None) };
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    #[track_caller]
    pub(crate) fn next(&mut self) -> String {
        self.try_next().unwrap().unwrap_or_else(|| panic!("the stream has ended"))
    }
}
