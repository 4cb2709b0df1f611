//! One connection to a server: requests out, replies in, never without a deadline.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use super::Value;
use crate::database::Target;
use crate::rest::Rest;

/// How long a check for received bytes takes when there are none.
const GLANCE: Duration = Duration::from_millis(1);

/// How many such checks are enough.
const GLANCES_MAX: usize = 200;

/// Where a server listens.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
    /// The worker of `edge/`.
    Rest(Target),
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Rest(Rest),
}

impl Stream {
    fn set_patience(&self, patience: Duration) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_read_timeout(Some(patience)),
            Stream::Unix(stream) => stream.set_read_timeout(Some(patience)),
            // It waits for a response as long as all HTTP clients of these tests.
            Stream::Rest(_) => Ok(()),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(into),
            Stream::Unix(stream) => stream.read(into),
            Stream::Rest(stream) => stream.read(into),
        }
    }
}

/// A connection.
pub(crate) struct Conn {
    stream: BufReader<Stream>,
    patience: Duration,
    /// Why the connection is closed.
    dead: Option<Value>,
    markers: u64,
    /// Requests that were sent, less replies that were received.
    open: i64,
    id: Option<i64>,
}

impl Conn {
    /// Connects. A reply that takes longer than `patience` is lost.
    pub(crate) fn open(address: &Address, patience: Duration) -> io::Result<Conn> {
        let stream = match address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_nodelay(true)?;
                stream.set_write_timeout(Some(patience))?;
                Stream::Tcp(stream)
            }
            Address::Unix(path) => Stream::Unix(UnixStream::connect(path)?),
            Address::Rest(place) => Stream::Rest(Rest::connect(place)),
        };
        stream.set_patience(patience)?;
        Ok(Conn { stream: BufReader::new(stream), patience, dead: None, markers: 0, open: 0, id: None })
    }

    /// Sends requests in one go.
    pub(crate) fn send<'a>(&mut self, requests: impl IntoIterator<Item = &'a [Vec<u8>]>) {
        let mut bytes = Vec::new();
        for request in requests {
            self.open += 1;
            bytes.extend_from_slice(format!("*{}\r\n", request.len()).as_bytes());
            for argument in request {
                bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
                bytes.extend_from_slice(argument);
                bytes.extend_from_slice(b"\r\n");
            }
        }
        self.write(&bytes);
    }

    fn write(&mut self, bytes: &[u8]) {
        let written = match self.stream.get_mut() {
            Stream::Tcp(stream) => stream.write_all(bytes),
            Stream::Unix(stream) => stream.write_all(bytes),
            Stream::Rest(stream) => stream.write_all(bytes),
        };
        if let Err(error) = written {
            self.dead.get_or_insert_with(|| Value::lost(error));
        }
    }

    /// The next reply.
    pub(crate) fn receive(&mut self) -> Value {
        self.open -= 1;
        if let Some(why) = &self.dead {
            return why.clone();
        }
        Value::read(&mut self.stream).unwrap_or_else(|error| {
            let why = match error.kind() {
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => Value::lost("closed"),
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Value::silence(),
                _ => Value::lost(error),
            };
            self.dead = Some(why.clone());
            why
        })
    }

    /// Sends a request and waits for the reply.
    pub(crate) fn ask(&mut self, request: &[Vec<u8>]) -> Value {
        self.send([request]);
        self.receive()
    }

    /// The same, from a line of text.
    pub(crate) fn ask_words(&mut self, words: &str) -> Value {
        let request: Vec<Vec<u8>> = words.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        self.ask(&request)
    }

    /// Sends a request and reads every frame, until the reply to a PING that is sent after it; then goes on
    /// until there are `least` of them, as far as they come.
    pub(crate) fn frames(&mut self, request: Option<&[Vec<u8>]>, least: usize) -> Vec<Value> {
        let marker = self.next_marker();
        let ping = [b"PING".to_vec(), marker.clone()];
        self.send(request.into_iter().chain([&ping[..]]));
        let mut frames = self.until(&marker);
        while frames.len() < least && (0..GLANCES_MAX).any(|_| self.has_reply()) {
            let frame = self.receive();
            let lost = frame.is_lost();
            frames.push(frame);
            if lost {
                break;
            }
        }
        frames
    }

    /// Sends bytes as they are and reads every frame, until the server closes or replies to the PING after them.
    pub(crate) fn raw_frames(&mut self, bytes: &[u8]) -> Vec<Value> {
        let marker = self.next_marker();
        let ping = [b"PING ", &marker[..], b"\r\n"].concat();
        self.write(&[bytes, &ping].concat());
        self.until(&marker)
    }

    fn next_marker(&mut self) -> Vec<u8> {
        self.markers += 1;
        format!("marker-{}", self.markers).into_bytes()
    }

    fn until(&mut self, marker: &[u8]) -> Vec<Value> {
        let mut frames = Vec::new();
        loop {
            let frame = self.receive();
            let last = frame.items().and_then(<[Value]>::last).unwrap_or(&frame);
            if last.bytes() == Some(marker) {
                return frames;
            }
            let lost = frame.is_lost();
            frames.push(frame);
            if lost {
                return frames;
            }
        }
    }

    /// Takes every frame until the server closes the connection.
    pub(crate) fn until_closed(&mut self) -> Vec<Value> {
        let mut frames = vec![self.receive()];
        while !frames.last().is_some_and(Value::is_lost) {
            frames.push(self.receive());
        }
        frames
    }

    /// Whether a request has no reply yet.
    pub(crate) fn is_waiting(&self) -> bool {
        self.open > 0
    }

    /// Whether something can be received, or nothing ever will.
    pub(crate) fn has_reply(&mut self) -> bool {
        if self.dead.is_some() || !self.stream.buffer().is_empty() {
            return true;
        }
        let _ = self.stream.get_ref().set_patience(GLANCE);
        let waits = match self.stream.fill_buf() {
            Ok(_) => true,
            Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
        };
        let _ = self.stream.get_ref().set_patience(self.patience);
        waits
    }

    /// The server's number for this connection.
    pub(crate) fn id(&mut self) -> i64 {
        if self.id.is_none() {
            self.id = self.ask_words("CLIENT ID").int();
        }
        self.id.unwrap_or(0)
    }
}
