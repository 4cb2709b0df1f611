//! What can go wrong with a call to a Redis server, and what that means for its outcome.

use keystead_core::{Code, Error};
use redis::{RedisError, Value};

/// Why a call has no reply.
#[derive(Debug)]
pub(super) enum Failure {
    /// The server rejected it: nothing was changed.
    Rejected { code: String, detail: String },
    /// It did not reach the server.
    NotSent(String),
    /// It may have reached the server.
    Lost(String),
    /// It reached the server, and the reply is larger than its bound.
    TooLarge,
}

impl Failure {
    /// The failure of a call that was sent.
    pub(super) fn of(error: &RedisError) -> Failure {
        match error.code() {
            Some(code) => {
                Failure::Rejected { code: code.to_owned(), detail: error.detail().unwrap_or("").to_owned() }
            }
            None => {
                Failure::Lost(format!("the connection to the Redis server was lost ({})", error.category()))
            }
        }
    }

    /// The rejection of a call by an error of this text.
    pub(super) fn rejected(text: &str) -> Failure {
        let (code, detail) = text.split_once(' ').unwrap_or((text, ""));
        Failure::Rejected { code: code.to_owned(), detail: detail.to_owned() }
    }

    /// The failure of a connection: no call was sent.
    pub(super) fn to_connect(address: &str, error: &RedisError) -> Failure {
        match error.code() {
            Some("WRONGPASS" | "NOAUTH") => {
                Failure::NotSent(format!("the Redis server at {address} rejected the user name or password"))
            }
            Some(code) => {
                Failure::NotSent(format!("the Redis server at {address} rejected the connection: {code}"))
            }
            None if error.kind() == redis::ErrorKind::AuthenticationFailed => {
                Failure::NotSent(format!("the Redis server at {address} rejected the user name or password"))
            }
            None if error.to_string().contains("CertificateRequired") => Failure::NotSent(format!(
                "the server at {address} wants a client certificate, which stores do not present: set tls-auth-clients no"
            )),
            None => Failure::NotSent(format!(
                "the server at {address} does not speak RESP ({}): if it wants TLS, write rediss:// (tls=true for a cluster)",
                error.category()
            )),
        }
    }

    pub(super) fn is(&self, wanted: &str) -> bool {
        matches!(self, Failure::Rejected { code, .. } if code == wanted)
    }
}

impl Failure {
    /// Whether a server says that it did not run a script, because it has not the script or not the key: another call finds both.
    pub(super) fn is_elsewhere(&self) -> bool {
        ["NOSCRIPT", "MOVED", "ASK", "TRYAGAIN"].iter().any(|code| self.is(code))
    }

    /// The error, where replies have at most so many bytes.
    pub(super) fn to_error(&self, reply_bytes_max: usize) -> Error {
        match self {
            Failure::NotSent(message) => Error::new(Code::StoreUnavailable, message.clone()),
            Failure::Lost(message) => Error::unknown(Code::StoreUnavailable, message.clone()),
            Failure::TooLarge => {
                let words = "Request less data at a time";
                let message = format!("max response size exceeded. Limit: {reply_bytes_max} bytes. {words}");
                Error::unknown(Code::TooLarge, message)
            }
            Failure::Rejected { code, detail } => {
                let kind = match code.as_str() {
                    "WRONGTYPE" | "OTHERTYPE" => Code::WrongType,
                    "CORRUPT" => Code::Corrupt,
                    "OOM" => Code::OutOfMemory,
                    _ => Code::StoreUnavailable,
                };
                let advice = match detail {
                    // Where calls are redirected, they are followed.
                    _ if code == "MOVED" => ": it is a node of a cluster, so the URL needs redis+cluster://",
                    _ if code == "READONLY" => ": it is a replica: use the address of its primary",
                    detail if detail.contains("after non deterministic commands") => {
                        ": it is older than Redis 5, which this store needs"
                    }
                    detail if detail.contains("unknown command") && detail.contains("EVAL") => {
                        ": it runs no scripts, so the URL needs atomic=watch"
                    }
                    _ => "",
                };
                Error::new(kind, format!("the Redis server replied {code} {detail}{advice}"))
            }
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        failure.to_error(usize::MAX)
    }
}

/// A reply that none of our commands has.
pub(super) fn unexpected(value: &Value) -> Error {
    let kind = match value {
        Value::Nil => "nil",
        Value::Int(_) => "an integer",
        Value::Array(_) => "an array",
        _ => "a text",
    };
    Error::unknown(Code::StoreUnavailable, format!("the server sent {kind} where another reply was expected"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_errors_of_servers_that_cannot_be_used_say_what_to_do() {
        for (reply, advice) in [
            (
                "ERR Error running script (call to f_0): @user_script:9: Write commands not allowed after non deterministic commands.",
                "Redis 5",
            ),
            ("ERR unknown command 'EVALSHA'", "atomic=watch"),
            ("ERR unknown command `EVAL`, with args beginning with: ", "atomic=watch"),
            ("MOVED 12182 127.0.0.1:7001", "redis+cluster://"),
            ("READONLY You can't write against a read only replica.", "address of its primary"),
        ] {
            let error = Error::from(Failure::rejected(reply));
            assert!(error.message().contains(advice), "{error}");
            assert_eq!(error.code(), Code::StoreUnavailable);
        }
        assert!(!Error::from(Failure::rejected("ERR other")).message().contains(':'));
    }
}
