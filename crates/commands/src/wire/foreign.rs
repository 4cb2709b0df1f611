//! Detection of other protocols on the RESP port, above all HTTP. It touches nothing.
//!
//! A web page can send HTTP to any port of its machine or network: `fetch(.., {method: 'POST', mode: 'no-cors', body: ..})`, a form,
//! an image. Its lines would be parsed as inline requests, and the page controls those of the body. So the first line of an HTTP
//! request closes the connection before anything after it is read, and so does `Host:`, as in Redis. Arrays are not checked: a browser
//! cannot begin with one.

/// Another protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// HTTP/1 or HTTP/2.
    Http,
    /// TLS, or another binary protocol.
    Binary,
}

impl Foreign {
    /// What the client is sent before the connection is closed.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Foreign::Http => "HTTP on a port of the Redis protocol",
            Foreign::Binary => "TLS or binary data on a port of the Redis protocol without TLS",
        }
    }
}

/// The protocol with this first byte: a TLS record, or a STUN message. Both may contain lines that a page controls. (Other control
/// characters can come from a keyboard.)
pub(super) fn by_first_byte(byte: u8) -> Option<Foreign> {
    matches!(byte, 0 | 1 | 20..=24).then_some(Foreign::Binary)
}

/// The protocol of an inline request, by its words.
pub(super) fn by_words<'a>(mut words: impl Iterator<Item = &'a [u8]>) -> Option<Foreign> {
    let name = words.next()?;
    // Redis's check. `Host:` is in every request of a browser.
    if name.eq_ignore_ascii_case(b"POST") || name.eq_ignore_ascii_case(b"HOST:") {
        return Some(Foreign::Http);
    }
    // `GET /path HTTP/1.1`, `PRI * HTTP/2.0`, whatever the method: a page may invent one.
    let (target, version, more) = (words.next()?, words.next()?, words.next());
    let is_request_line = more.is_none()
        && version.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"HTTP/"))
        && (is_target(target) || name.eq_ignore_ascii_case(b"CONNECT"));
    is_request_line.then_some(Foreign::Http)
}

/// Whether this is a request target of HTTP: a path, `*`, or a URL.
fn is_target(word: &[u8]) -> bool {
    word.starts_with(b"/") || word == b"*" || word.windows(3).any(|three| three == b"://")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(line: &str) -> Option<Foreign> {
        by_words(line.split(' ').map(str::as_bytes))
    }

    #[test]
    fn the_first_line_of_any_http_request_is_recognised() {
        for text in [
            "POST / HTTP/1.1",
            "post",
            "POST x",
            "Host: localhost:6379",
            "HOST:",
            "GET / HTTP/1.1",
            "get /a?b=c HTTP/1.0",
            "HEAD /set/k/v HTTP/1.1",
            "PUT /k HTTP/1.1",
            "OPTIONS * HTTP/1.1",
            "DELETE /k HTTP/1.1",
            "PATCH /k http/1.1",
            "PRI * HTTP/2.0",
            "GET http://127.0.0.1:6379/ HTTP/1.1",
            "BREW /pot HTTP/1.1",
            "CONNECT 127.0.0.1:6379 HTTP/1.1",
            "SET /k HTTP/1.1",
        ] {
            assert_eq!(line(text), Some(Foreign::Http), "{text}");
        }
    }

    #[test]
    fn inline_requests_are_not_another_protocol() {
        for text in [
            "GET /",
            "GET k",
            "SET k HTTP/1.1",
            "SET host: v",
            "SET k POST",
            "MGET /a /b HTTP/1.1",
            "LPUSH log HTTP/1.1",
            "PING",
        ] {
            assert_eq!(line(text), None, "{text}");
        }
    }

    #[test]
    fn binary_protocols_are_recognised_by_their_first_byte() {
        for byte in [0, 1, 22] {
            assert_eq!(by_first_byte(byte), Some(Foreign::Binary));
        }
        for byte in *b"aZ*$\"' \t\r\n\x08\x1b\x7f\xff" {
            assert_eq!(by_first_byte(byte), None);
        }
    }
}
