//! A Redis client for these tests. Every wait has a deadline.
//!
//! A reply is text that is easy to compare: `+OK`, `-ERR words`, `:1`, `$-1` and `*-1` and `_` for nothing, a byte string
//! as it is (`''` when empty), `[a b]` for arrays, `{k v}` for maps, `~[a]` for sets, `>[a]` for messages.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::channel;
use std::time::Duration;

use keystead_core::Stopwatch;
use keystead_testkit::server::Server;

/// How long a reply may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// How long a test listens for what must not come.
const SILENCE: Duration = Duration::from_millis(80);

/// A connection over TCP, or over what is laid on top of it.
pub(crate) struct Client<S: Read + Write = TcpStream>(BufReader<S>);

impl Client {
    pub(crate) fn connect(server: &Server) -> Client {
        let stream = TcpStream::connect(server.resp().unwrap()).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Client::over(stream)
    }

    /// One that speaks RESP3.
    pub(crate) fn connect_3(server: &Server) -> Client {
        let mut client = Self::connect(server);
        assert!(client.ask("HELLO 3").starts_with('{'));
        client
    }

    /// Whether nothing is received for a while.
    pub(crate) fn is_silent(&mut self) -> bool {
        self.0.get_ref().set_read_timeout(Some(SILENCE)).unwrap();
        let received = self.0.fill_buf().map(<[u8]>::len);
        self.0.get_ref().set_read_timeout(Some(PATIENCE)).unwrap();
        received.is_err_and(|e| matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut))
    }

    /// Sends no more, but listens.
    pub(crate) fn half_close(&mut self) {
        self.0.get_ref().shutdown(Shutdown::Write).unwrap();
    }

    /// Its number, as CLIENT names it.
    pub(crate) fn id(&mut self) -> u64 {
        self.ask("CLIENT ID").strip_prefix(':').unwrap().parse().unwrap()
    }

    /// The same connection for another thread: one writes, the other reads.
    pub(crate) fn writer(&self) -> TcpStream {
        self.0.get_ref().try_clone().unwrap()
    }
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn over(stream: S) -> Self {
        Client(BufReader::with_capacity(64 * 1024, stream))
    }

    /// Sends bytes as they are. The server may close the connection before it has read everything; only its replies matter.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        let _ = self.0.get_mut().write_all(bytes).and_then(|()| self.0.get_mut().flush());
    }

    /// Sends words as a request.
    pub(crate) fn send(&mut self, line: &str) {
        self.send_raw(&request(line));
    }

    /// Sends a request and waits for its reply.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.receive()
    }

    /// The same for words that may contain spaces.
    pub(crate) fn ask_words(&mut self, words: &[&str]) -> String {
        self.send_raw(&request_of(words.iter().map(|word| word.as_bytes())));
        self.receive()
    }

    /// Sends requests at once and waits for their replies.
    pub(crate) fn ask_all<'a>(&mut self, lines: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        let requests: Vec<_> = lines.into_iter().map(request).collect();
        self.send_raw(&requests.concat());
        requests.iter().map(|_| self.receive()).collect()
    }

    /// Asks, and compares.
    #[track_caller]
    pub(crate) fn expect(&mut self, expected: &[(&str, &str)]) {
        for (line, reply) in expected {
            assert_eq!(self.ask(line), *reply, "{line}");
        }
    }

    /// The next reply.
    #[track_caller]
    pub(crate) fn receive(&mut self) -> String {
        self.try_receive().unwrap_or_else(|error| panic!("no reply: {error}"))
    }

    pub(crate) fn try_receive(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line)?;
        let Some((mark, text)) = line.strip_suffix(b"\r\n").and_then(<[u8]>::split_first) else {
            let words = format!("closed after '{}'", line.escape_ascii());
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, words));
        };
        let text = String::from_utf8_lossy(text).into_owned();
        let len = text.parse::<usize>();
        Ok(match (*mark, len) {
            (b'$' | b'=' | b'!', Ok(len)) => {
                let mut bytes = vec![0; len + 2];
                self.0.read_exact(&mut bytes)?;
                bytes.truncate(len);
                if len == 0 { "''".to_owned() } else { bytes.escape_ascii().to_string() }
            }
            (b'*', Ok(len)) => format!("[{}]", self.many(len)?),
            (b'~', Ok(len)) => format!("~[{}]", self.many(len)?),
            (b'>', Ok(len)) => format!(">[{}]", self.many(len)?),
            (b'%', Ok(len)) => format!("{{{}}}", self.many(2 * len)?),
            (mark, _) => format!("{}{text}", char::from(mark)),
        })
    }

    fn many(&mut self, len: usize) -> io::Result<String> {
        let items: Vec<_> = (0..len).map(|_| self.try_receive()).collect::<io::Result<_>>()?;
        Ok(items.join(" "))
    }

    /// Whether the server has closed the connection, or does so soon; nothing else may come.
    pub(crate) fn is_closed(&mut self) -> bool {
        match self.0.fill_buf() {
            Ok(bytes) => bytes.is_empty(),
            Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
        }
    }

    /// Everything until the server closes.
    pub(crate) fn rest(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.try_receive().ok()).collect()
    }
}

/// The words of a line as a request. `''` is an empty word.
pub(crate) fn request(line: &str) -> Vec<u8> {
    request_of(line.split(' ').map(|word| if word == "''" { b"" } else { word.as_bytes() }))
}

pub(crate) fn request_of<'a>(words: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let (mut bytes, mut count) = (Vec::new(), 0);
    for word in words {
        count += 1;
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    [format!("*{count}\r\n").into_bytes(), bytes].concat()
}

/// Waits until something holds.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let watch = Stopwatch::start();
    while !holds() {
        assert!(watch.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        pause(5);
    }
}

/// Lets time pass where a test is about time.
pub(crate) fn pause(ms: u64) {
    let (_open, never) = channel::<()>();
    let _ = never.recv_timeout(Duration::from_millis(ms));
}

/// The value of a line of INFO.
pub(crate) fn info(client: &mut Client, section: &str, name: &str) -> u64 {
    let text = client.ask(&format!("INFO {section}"));
    let line = text.split("\\r\\n").find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

/// Waits until so many clients wait for keys.
#[track_caller]
pub(crate) fn until_blocked(admin: &mut Client, count: u64) {
    until("clients wait for keys", || info(admin, "clients", "blocked_clients") == count);
}
