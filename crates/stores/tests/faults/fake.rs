//! A server of HTTP that replies as a test wants, for what the real servers cannot be made to reply.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A response of this status and body. Its connection is closed after it.
pub(crate) fn response(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let len = body.len();
    let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}content-length: {len}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// Serves requests, of which `reply` gets the head as text. Returns the port.
pub(crate) async fn serve(reply: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let reply = Arc::new(reply);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let reply = Arc::clone(&reply);
            tokio::spawn(async move {
                let _ = one(stream, &*reply).await;
            });
        }
    });
    port
}

async fn one(mut stream: TcpStream, reply: &(impl Fn(&str) -> Vec<u8> + Sync)) -> std::io::Result<()> {
    let mut request = Vec::new();
    loop {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
        let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&request[..end]).to_lowercase();
        let len = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if request.len() >= end + 4 + len.map_or(0, |len| len.parse::<usize>().unwrap()) {
            return stream.write_all(&reply(&head)).await;
        }
    }
}
