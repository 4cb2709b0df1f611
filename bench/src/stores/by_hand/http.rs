//! Upstash's REST API, etcd's JSON gateway and DynamoDB: one HTTP request on a connection that is kept, written and read by hand.

use std::io;
use std::sync::{Arc, Mutex};

use keystead_testkit::servers::{Site, keystead};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::super::{Call, KEYS};
use super::{BURST_MS, INTERVAL_MS, SCRIPT, decide, denied, failed, now_ms};

/// Connections to one server; as many as there are calls in flight.
pub(super) struct Pool {
    port: u16,
    head: String,
    idle: Mutex<Vec<TcpStream>>,
}

impl Pool {
    pub(super) fn new(port: u16, headers: &str) -> Arc<Pool> {
        Arc::new(Pool { port, head: format!("host: localhost\r\n{headers}"), idle: Mutex::default() })
    }

    /// Posts a text, and returns that of the response.
    pub(super) async fn post(&self, path: &str, body: &str) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&self.post_bytes(path, body.as_bytes()).await?).into_owned())
    }

    /// Posts a body, and returns that of the response.
    pub(super) async fn post_bytes(&self, path: &str, body: &[u8]) -> io::Result<Vec<u8>> {
        let idle = self.idle.lock().unwrap().pop();
        let mut stream = match idle {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
                stream.set_nodelay(true)?;
                stream
            }
        };
        let head = format!("POST {path} HTTP/1.1\r\n{}content-length: {}\r\n\r\n", self.head, body.len());
        stream.write_all(&[head.as_bytes(), body].concat()).await?;
        let mut response = Vec::with_capacity(1024);
        let begin = loop {
            if stream.read_buf(&mut response).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some(end) = response.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end + 4;
            }
        };
        let head = String::from_utf8_lossy(&response[..begin]).to_ascii_lowercase();
        let length: Option<usize> =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
        let end = begin + length.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        while response.len() < end {
            if stream.read_buf(&mut response).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        self.idle.lock().unwrap().push(stream);
        Ok(response[begin..end].to_vec())
    }
}

/// One EVALSHA over REST.
pub(crate) async fn upstash(site: Site) -> Call {
    let pool = Pool::new(site.port(), &format!("authorization: Bearer {}\r\n", keystead::TOKEN));
    let loaded = pool.post("/", &format!("[\"SCRIPT\",\"LOAD\",\"{SCRIPT}\"]")).await.unwrap();
    let sha: Arc<str> = loaded.split('"').nth(3).unwrap_or_else(|| panic!("{loaded}")).into();
    Arc::new(move |key| {
        let (pool, sha) = (Arc::clone(&pool), Arc::clone(&sha));
        Box::pin(async move {
            let now = now_ms();
            let body =
                format!("[\"EVALSHA\",\"{sha}\",1,\"by-hand:{key:05}\",{now},{INTERVAL_MS},{BURST_MS}]");
            let reply = pool.post("/", &body).await.map_err(failed)?;
            if reply.contains("[1,") { Ok(()) } else { Err(denied().context(reply)) }
        })
    })
}

/// One transaction that compares the revision, which is kept here. Checks of one key wait for each other.
pub(crate) async fn etcd(site: Site) -> Call {
    let pool = Pool::new(site.port(), "");
    let base64 = |text: &str| data_encoding::BASE64.encode(text.as_bytes());
    let deleted = format!("{{\"key\":\"{}\",\"range_end\":\"{}\"}}", base64("by-hand:"), base64("by-hand;"));
    pool.post("/v3/kv/deleterange", &deleted).await.unwrap();
    let states: Arc<[tokio::sync::Mutex<(String, f64)>]> =
        (0..KEYS[1]).map(|_| tokio::sync::Mutex::new(("0".to_owned(), 0.0))).collect();
    Arc::new(move |key| {
        let (pool, states) = (Arc::clone(&pool), Arc::clone(&states));
        Box::pin(async move {
            let mut state = states[key].lock().await;
            let tat = decide(state.1, now_ms() as f64);
            let (key, value) = (base64(&format!("by-hand:{key:05}")), base64(&format!("{tat:?}")));
            let body = format!(
                "{{\"compare\":[{{\"key\":\"{key}\",\"target\":\"MOD\",\"mod_revision\":\"{}\"}}],\
                 \"success\":[{{\"request_put\":{{\"key\":\"{key}\",\"value\":\"{value}\"}}}}],\
                 \"failure\":[{{\"request_range\":{{\"key\":\"{key}\"}}}}]}}",
                state.0
            );
            let reply = pool.post("/v3/kv/txn", &body).await.map_err(failed)?;
            let revision = reply.split("\"revision\":\"").nth(1).and_then(|rest| rest.split('"').next());
            match revision {
                Some(revision) if reply.contains("\"succeeded\":true") => *state = (revision.to_owned(), tat),
                _ => return Err(denied().context(reply)),
            }
            Ok(())
        })
    })
}

/// One PutItem on the condition of the last version, which is kept here. Checks of one key wait for each other.
pub(crate) async fn dynamodb(site: Site) -> Call {
    // The servers of the tests want a signature, and do not check it.
    let pool = |operation: &str| {
        let headers = format!(
            "content-type: application/x-amz-json-1.0\r\nx-amz-target: DynamoDB_20120810.{operation}\r\n\
             x-amz-date: 20150830T123600Z\r\nauthorization: AWS4-HMAC-SHA256 \
             Credential=id/20150830/eu-west-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0\r\n"
        );
        Pool::new(site.port(), &headers)
    };
    // A table of an earlier run may be there.
    let _ = pool("DeleteTable").post("/", r#"{"TableName":"by-hand"}"#).await;
    let table = r#"{"TableName":"by-hand","BillingMode":"PAY_PER_REQUEST",
        "AttributeDefinitions":[{"AttributeName":"key","AttributeType":"S"}],
        "KeySchema":[{"AttributeName":"key","KeyType":"HASH"}]}"#;
    pool("CreateTable").post("/", table).await.unwrap();
    let put = pool("PutItem");
    let states: Arc<[tokio::sync::Mutex<(u64, f64)>]> =
        (0..KEYS[1]).map(|_| tokio::sync::Mutex::new((0, 0.0))).collect();
    Arc::new(move |key| {
        let (put, states) = (Arc::clone(&put), Arc::clone(&states));
        Box::pin(async move {
            let mut state = states[key].lock().await;
            let (version, tat) = (state.0 + 1, decide(state.1, now_ms() as f64));
            let condition = match state.0 {
                0 => "\"ConditionExpression\":\"attribute_not_exists(version)\"".to_owned(),
                before => format!(
                    "\"ConditionExpression\":\"version = :v\",\"ExpressionAttributeValues\":{{\":v\":{{\"N\":\"{before}\"}}}}"
                ),
            };
            let body = format!(
                "{{\"TableName\":\"by-hand\",\"Item\":{{\"key\":{{\"S\":\"by-hand:{key:05}\"}},\
                 \"version\":{{\"N\":\"{version}\"}},\"tat\":{{\"S\":\"{tat:?}\"}}}},{condition}}}"
            );
            let reply = put.post("/", &body).await.map_err(failed)?;
            match reply.contains("\"__type\"") {
                true => Err(denied().context(reply)),
                false => {
                    *state = (version, tat);
                    Ok(())
                }
            }
        })
    })
}
