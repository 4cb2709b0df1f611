//! A connection to the RESP listener of a node, which has said HELLO with the router's token. Opens sockets.

use keystead_commands::session::Protocol;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::frame::{self, Scanner};
use crate::bounds::{ROUTER_CONNECT_TIMEOUT, ROUTER_ERROR_BYTES_MAX};
use crate::failure::io_words;
use crate::router::node::Node;
use crate::settings::Token;

/// A new connection.
pub(super) struct Dialled {
    pub(super) stream: TcpStream,
    /// Its id on the node, for CLIENT UNBLOCK.
    pub(super) id: i64,
}

/// Connects to a node.
///
/// # Errors
/// Why not, for the client. Nothing was applied.
pub(super) async fn dial(node: &Node, protocol: Protocol, token: Option<&Token>) -> Result<Dialled, String> {
    let shown = node.shown_resp();
    let failed = |why: &str| format!("{shown} cannot be reached: {why}");
    let Some(address) = &node.listed.resp else {
        return Err(failed("it has no address for Redis clients"));
    };
    if address.is_tls {
        return Err(failed("it wants TLS, which a router does not speak"));
    }
    let dialling = async {
        let stream = TcpStream::connect((address.host.as_str(), address.port)).await;
        let mut stream = stream.map_err(|error| failed(&io_words(&error)))?;
        // Requests are written whole, so waiting to fill a packet would only delay them.
        let _ = stream.set_nodelay(true);
        let id = hello(&mut stream, protocol, token).await.map_err(|why| failed(&why))?;
        Ok(Dialled { stream, id })
    };
    match timeout(ROUTER_CONNECT_TIMEOUT, dialling).await {
        Ok(dialled) => dialled,
        Err(_) => Err(failed(&format!("no connection within {ROUTER_CONNECT_TIMEOUT:?}"))),
    }
}

async fn hello(stream: &mut TcpStream, protocol: Protocol, token: Option<&Token>) -> Result<i64, String> {
    let version = if protocol == Protocol::Resp3 { "3" } else { "2" };
    let secret = token.map(Token::secret);
    let mut words = vec!["HELLO", version];
    if let Some(secret) = &secret {
        words.extend(["AUTH", "default", secret]);
    }
    words.extend(["SETNAME", "keystead-router"]);
    let mut request = Vec::new();
    super::command(words.iter().map(|word| word.as_bytes()), &mut request);
    stream.write_all(&request).await.map_err(|error| io_words(&error))?;
    let (mut reply, mut scanner) = (Vec::new(), Scanner::default());
    loop {
        if reply.len() > ROUTER_ERROR_BYTES_MAX {
            return Err("it is not a server of this protocol".to_owned());
        }
        match stream.read_buf(&mut reply).await {
            Ok(0) => return Err("it closed the connection".to_owned()),
            Ok(_) => {}
            Err(error) => return Err(io_words(&error)),
        }
        match scanner.read(&reply) {
            Ok(None) => {}
            Ok(Some(_)) => return id_of(&reply),
            Err(_) => return Err("it is not a server of this protocol".to_owned()),
        }
    }
}

/// The id in a reply to HELLO.
fn id_of(reply: &[u8]) -> Result<i64, String> {
    if let Some(error) = frame::error(reply) {
        return Err(error.to_owned());
    }
    const NAME: &[u8] = b"$2\r\nid\r\n:";
    let at = reply.windows(NAME.len()).position(|bytes| bytes == NAME).map(|at| at + NAME.len());
    let id = at.and_then(|at| {
        let end = reply[at..].iter().position(|byte| *byte == b'\r')?;
        std::str::from_utf8(&reply[at..at + end]).ok()?.parse().ok()
    });
    // Without an id, a request that waits cannot be ended by another client.
    Ok(id.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_connection_is_found() {
        assert_eq!(id_of(b"%2\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:42\r\n"), Ok(42));
        assert_eq!(id_of(b"-NOAUTH x\r\n"), Err("NOAUTH x".to_owned()));
    }
}
