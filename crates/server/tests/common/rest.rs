//! Redis's protocol over the REST API: requests that are written go to `/pipeline`, and their replies, in RESP2, can be read.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{self, Read, Write};

use serde_json::Value;

use crate::client::{Http, Listens};

const RESP2: &str = "Upstash-Response-Format: resp2";

/// A connection. It has no state of its own: no MULTI, no subscriptions.
pub(crate) struct Rest {
    http: Http,
    written: Vec<u8>,
    replies: VecDeque<u8>,
}

impl Rest {
    pub(crate) fn connect(server: &impl Listens) -> Rest {
        Rest { http: Http::connect(server), written: Vec::new(), replies: VecDeque::new() }
    }

    /// Sends the requests that were written. JSON has no bytes that are not UTF-8: a request with such goes as a path.
    fn exchange(&mut self) -> io::Result<()> {
        let written = std::mem::take(&mut self.written);
        let mut texts: Vec<Vec<String>> = Vec::new();
        for request in requests(&written) {
            match request.iter().map(|word| String::from_utf8(word.to_vec())).collect() {
                Ok(words) => texts.push(words),
                Err(_) => {
                    self.pipeline(&std::mem::take(&mut texts))?;
                    self.path(&request)?;
                }
            }
        }
        self.pipeline(&texts)
    }

    fn pipeline(&mut self, texts: &[Vec<String>]) -> io::Result<()> {
        if texts.is_empty() {
            return Ok(());
        }
        let body = Value::from(texts.to_vec()).to_string();
        let response = self.http.try_ask("POST", "/pipeline", &[RESP2], body.as_bytes())?;
        // An error about the whole request is the reply to each command.
        let times = if response.status == 200 { 1 } else { texts.len() };
        (0..times).for_each(|_| self.replies.extend(&response.body));
        Ok(())
    }

    fn path(&mut self, words: &[&[u8]]) -> io::Result<()> {
        let mut target = String::new();
        // The last word is the body, so that a path does not end with an empty one.
        let Some((last, before)) = words.split_last() else { return Ok(()) };
        for word in before {
            target.push('/');
            for byte in *word {
                let _ = write!(target, "%{byte:02x}");
            }
        }
        // A slash at the end is none of the words.
        if before.last().is_some_and(|word| word.is_empty()) {
            target.push('/');
        }
        let response = self.http.try_ask("POST", &target, &[RESP2], last)?;
        self.replies.extend(&response.body);
        Ok(())
    }
}

impl Write for Rest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Rest {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.replies.is_empty() && !self.written.is_empty() {
            self.exchange()?;
        }
        self.replies.read(into)
    }
}

/// The requests in these bytes, which are whole.
fn requests(bytes: &[u8]) -> Vec<Vec<&[u8]>> {
    let (mut rest, mut found) = (bytes, Vec::new());
    while !rest.is_empty() {
        let count = number(&mut rest);
        found.push((0..count).map(|_| word(&mut rest)).collect());
    }
    found
}

fn word<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let len = number(rest);
    let (word, after) = rest.split_at(len);
    *rest = &after[2..];
    word
}

/// The number of a line such as `*2` or `$5`.
fn number(rest: &mut &[u8]) -> usize {
    let end = rest.iter().position(|byte| *byte == b'\r').expect("a line ends");
    let number = std::str::from_utf8(&rest[1..end]).expect("a number is text").parse().expect("a number");
    *rest = &rest[end + 2..];
    number
}
