//! The webhook, against a receiver of these tests, and with the SDKs of Standard Webhooks and CloudEvents.

use std::collections::{BTreeMap, VecDeque};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use keystead_core::{Code, Outcome};
use keystead_sinks::{Layout, Sink, Written, open};
use keystead_testkit::servers::proxy::{Proxy, Traffic};
use keystead_testkit::servers::{find_binary, nats};
use keystead_testkit::skip::found;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

use crate::cases::{batch, delete, put, write};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OLD_SECRET: &str = "whsec_b2xkLXNlY3JldC1vZi10aGUtdGVzdHM";

#[derive(Clone, Debug)]
struct Received {
    line: String,
    headers: BTreeMap<String, String>,
    body: String,
}

impl Received {
    fn events(&self) -> Vec<Value> {
        serde_json::from_str(&self.body).unwrap()
    }

    fn ids(&self) -> Vec<String> {
        self.events().iter().map(|event| event["id"].as_str().unwrap().to_owned()).collect()
    }
}

/// A receiver that replies what it is given, and 204 when it has nothing more.
struct Receiver {
    port: u16,
    received: Arc<Mutex<Vec<Received>>>,
    replies: Arc<Mutex<VecDeque<String>>>,
}

impl Receiver {
    async fn start() -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (received, replies) =
            (Arc::<Mutex<Vec<Received>>>::default(), Arc::<Mutex<VecDeque<String>>>::default());
        let receiver = Receiver { port, received: Arc::clone(&received), replies: Arc::clone(&replies) };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (received, replies) = (Arc::clone(&received), Arc::clone(&replies));
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    while let Some(request) = request(&mut stream).await {
                        received.lock().unwrap().push(request);
                        let reply = replies.lock().unwrap().pop_front();
                        let reply = reply.unwrap_or_else(|| "HTTP/1.1 204 No Content\r\n\r\n".to_owned());
                        if stream.write_all(reply.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        receiver
    }

    fn sink(&self, parameters: &str) -> Arc<dyn Sink> {
        sink(self.port, parameters)
    }

    /// The next reply.
    fn reply(&self, status: &str, headers: &str, body: &str) {
        let reply = format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len());
        self.replies.lock().unwrap().push_back(reply);
    }

    fn take(&self) -> Vec<Received> {
        std::mem::take(&mut *self.received.lock().unwrap())
    }
}

fn sink(port: u16, parameters: &str) -> Arc<dyn Sink> {
    open(
        &format!("http://{SECRET}:{OLD_SECRET}@127.0.0.1:{port}/hook{parameters}"),
        Layout::whole("s", "", "t"),
    )
    .unwrap()
}

async fn request(stream: &mut BufReader<tokio::net::TcpStream>) -> Option<Received> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok().filter(|bytes| *bytes > 0)?;
    let mut headers = BTreeMap::new();
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).await.ok()?;
        let Some((name, value)) = header.trim().split_once(':') else { break };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let mut body = vec![0; headers["content-length"].parse().unwrap()];
    stream.read_exact(&mut body).await.ok()?;
    Some(Received { line: line.trim().to_owned(), headers, body: String::from_utf8(body).unwrap() })
}

#[tokio::test]
async fn rows_are_signed_cloud_events() {
    let receiver = Receiver::start().await;
    let sink = receiver.sink("?code=a%20b");
    sink.probe().await.unwrap();
    let value = json!({"name": "O'Hara ü", "n": [1, 2.5, null]});
    assert_eq!(
        write(&*sink, 1, vec![put("user:1", 3, value.clone()), delete("user:2")]).await,
        Written::Done
    );
    assert_eq!(sink.position().await.unwrap(), None, "the caller keeps it");
    assert_eq!(sink.keys(None, None, 9).await.unwrap(), [""; 0]);
    assert_eq!(sink.differing(&[]).await.unwrap_err().code(), Code::Unsupported);
    let received = receiver.take();
    assert_eq!(received[0].body, "[]", "a probe has no events");
    let Received { line, headers, .. } = &received[1];
    assert_eq!(line, "POST /hook?code=a%20b HTTP/1.1");
    assert_eq!(headers["content-type"], "application/cloudevents-batch+json");
    assert_eq!(headers["host"], format!("127.0.0.1:{}", receiver.port));
    let events = received[1].events();
    let [one, two] = &events[..] else { panic!("{events:?}") };
    assert_eq!((&one["type"], &two["type"]), (&json!("dev.keystead.put"), &json!("dev.keystead.delete")));
    assert_eq!((&one["subject"], &one["data"]), (&json!("user:1"), &value));
    assert_eq!(one["keysteadversion"], json!("3"));
    assert_eq!(one["sequence"], json!("00000000000000000001"));
    assert_eq!(one["keysteadbatch"], json!("00000000000000000001"));
    assert!(two.get("data").is_none(), "{two}");
    // What the SDKs of others say about it.
    let python = find_binary("python", &["python"], "python3 -m venv target/peers");
    let Some(python) = found("standardwebhooks", python) else { return };
    let script = "import json,sys\ntry:\n    from standardwebhooks.webhooks import Webhook, WebhookVerificationError\n    \
        from cloudevents.http import from_json\nexcept ImportError as e: print('missing', e); sys.exit(0)\n\
        i = json.load(sys.stdin)\nfor s in i['secrets']: Webhook(s).verify(i['body'], i['headers'])\n\
        for bad in [i['body'] + ' ']:\n    try: Webhook(i['secrets'][0]).verify(bad, i['headers']); print('forged')\n    \
        except WebhookVerificationError: pass\n\
        for e in json.loads(i['body']):\n    c = from_json(json.dumps(e)); print(c['type'], c['subject'], c['specversion'])\n";
    let peers = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers/bin/python");
    let mut child = Command::new(if peers.is_file() { peers } else { python });
    let mut child = child.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let input =
        json!({"secrets": [SECRET, format!("{OLD_SECRET}=")], "headers": headers, "body": received[1].body});
    serde_json::to_writer(child.stdin.take().unwrap(), &input).unwrap();
    let output = child.wait_with_output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if let Some(reason) = shown.strip_prefix("missing ") {
        keystead_testkit::skip::skipped_in_part("standardwebhooks", reason);
        return;
    }
    assert_eq!(shown, "dev.keystead.put user:1 1.0\ndev.keystead.delete user:2 1.0");
    assert!(output.status.success());
}

#[tokio::test]
async fn what_is_sent_again_has_the_same_ids() {
    let receiver = Receiver::start().await;
    let sink = receiver.sink("?events=2");
    let rows = vec![put("a", 1, json!(1)), put("b", 1, json!(1)), put("c", 1, json!(1))];
    receiver.reply("200 OK", "", &"x".repeat(200_000));
    receiver.reply("500 Oops", "", "no");
    let error = sink.write(&batch(1, rows.clone())).await.unwrap_err();
    assert!(error.message().contains("500"), "{error}");
    assert_eq!(write(&*sink, 1, rows).await, Written::Done);
    let received = receiver.take();
    assert_eq!(received.iter().map(|one| one.events().len()).collect::<Vec<_>>(), [2, 1, 2, 1]);
    for (one, again) in [(0, 2), (1, 3)] {
        assert_eq!(received[one].ids(), received[again].ids());
        assert_eq!(received[one].headers["webhook-id"], received[again].headers["webhook-id"]);
    }
    assert_ne!(received[0].headers["webhook-id"], received[1].headers["webhook-id"]);
    // Another version is another event, and so is the same version after a deletion.
    let mut later = batch(2, vec![put("a", 2, json!(1)), put("a", 1, json!(1))]);
    later.rows[1].revision = keystead_core::Revision(9);
    assert_eq!(sink.write(&later).await.unwrap(), Written::Done);
    let later = receiver.take()[0].ids();
    assert!(!later.contains(&received[0].ids()[0]) && later[0] != later[1], "{later:?}");
}

#[tokio::test]
async fn a_rejected_event_is_named() {
    let receiver = Receiver::start().await;
    let sink = receiver.sink("");
    let rows = || ["a", "b", "c"].map(|key| put(key, 1, json!(1))).to_vec();
    assert_eq!(write(&*sink, 1, rows()).await, Written::Done);
    let ids = receiver.take()[0].ids();
    let list = json!({"rejected": [{"id": ids[1], "reason": "no such user"}, {"id": "somebody else's"}, {"id": ids[1]}]});
    receiver.reply("422 Unprocessable", "content-type: application/json\r\n", &list.to_string());
    let Written::Rejected(rejected) = write(&*sink, 1, rows()).await else { panic!("it was written") };
    assert_eq!(rejected.len(), 1);
    assert_eq!((rejected[0].row, rejected[0].reason.as_str()), (1, "no such user"));
    // The short form, beside others in another request.
    receiver.reply("400 Bad", "", &json!({"rejected": [ids[0]]}).to_string());
    let Written::Rejected(rejected) = write(&*receiver.sink("?events=1"), 1, rows()).await else { panic!() };
    assert_eq!(rejected.iter().map(|rejection| rejection.row).collect::<Vec<_>>(), [0]);
    // A server error rejects nothing, whatever it names.
    receiver.reply("500 Oops", "", &json!({"rejected": [ids[0]]}).to_string());
    assert_eq!(sink.write(&batch(1, rows())).await.unwrap_err().code(), Code::StoreUnavailable);
}

#[tokio::test]
async fn the_end_of_a_resynchronisation_is_an_event() {
    let receiver = Receiver::start().await;
    let sink = receiver.sink("");
    let resync = |number: u64, rows| {
        let mut page = batch(number, rows);
        page.next.resync = Some(2);
        page
    };
    assert_eq!(write(&*sink, 1, vec![put("old", 1, json!(1))]).await, Written::Done);
    assert_eq!(sink.write(&resync(2, vec![put("a", 1, json!(1))])).await.unwrap(), Written::Done);
    assert_eq!(sink.write(&resync(3, Vec::new())).await.unwrap(), Written::Done);
    assert_eq!(receiver.take().len(), 2, "not before the end");
    // It is sent until it was accepted.
    receiver.reply("500 Oops", "", "");
    assert_eq!(sink.write(&batch(4, Vec::new())).await.unwrap_err().code(), Code::StoreUnavailable);
    assert_eq!(write(&*sink, 4, Vec::new()).await, Written::Done);
    let received = receiver.take();
    assert_eq!(received.iter().map(|one| one.events().len()).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(received[0].ids(), received[1].ids());
    let event = received[1].events().remove(0);
    assert_eq!(event["type"], json!("dev.keystead.complete"));
    assert_eq!(event["data"], json!({"firstBatch": "00000000000000000002"}));
    assert_eq!(event["keysteadbatch"], json!("00000000000000000004"));
    assert_eq!(write(&*sink, 5, Vec::new()).await, Written::Done);
    assert_eq!(receiver.take().len(), 0, "once");
    // Who does not want it rejects it, and that is not an error of any row.
    assert_eq!(sink.write(&resync(6, Vec::new())).await.unwrap(), Written::Done);
    receiver.reply("422 Unprocessable", "", &json!({"rejected": [event["id"]]}).to_string());
    assert_eq!(write(&*sink, 7, Vec::new()).await, Written::Done);
    assert_eq!(receiver.take().len(), 1);
}

#[tokio::test]
async fn errors_say_what_to_do() {
    let receiver = Receiver::start().await;
    let sink = receiver.sink("");
    let rows = || vec![put("a", 1, json!(1))];
    for (status, headers, expected) in [
        ("401 Unauthorized", "", "check the secret"),
        ("404 Not Found", "", "check the path"),
        ("413 Too Large", "", "smaller events="),
        ("415 Unsupported", "", "must accept application/cloudevents-batch+json"),
        ("400 Bad Request", "", "name their ids"),
        ("302 Found", "location: http://127.0.0.1:1/\r\n", "redirects are not followed"),
        ("502 Bad Gateway", "", "will be sent again"),
    ] {
        receiver.reply(status, headers, "{\"rejected\": 7}");
        let error = sink.write(&batch(1, rows())).await.unwrap_err();
        assert_eq!(error.code(), Code::StoreUnavailable);
        assert!(error.message().contains(expected), "{error}");
    }
    assert_eq!(receiver.take().len(), 7, "each was sent once");
    // 429 and 503: nothing is sent until then.
    for status in ["429 Too Many", "503 Unavailable"] {
        receiver.reply(status, "retry-after: 1\r\n", "");
        let error = sink.write(&batch(1, rows())).await.unwrap_err();
        assert!(error.message().contains("asks to wait 1s"), "{error}");
        let error = sink.write(&batch(1, rows())).await.unwrap_err();
        assert!(error.message().contains("nothing was sent"), "{error}");
        assert_eq!(receiver.take().len(), 1);
        while sink.write(&batch(1, rows())).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(receiver.take().len(), 1);
    }
}

#[tokio::test]
async fn lost_replies_are_of_unknown_outcome() {
    let receiver = Receiver::start().await;
    let proxy = Proxy::start(receiver.port).await.unwrap();
    let sink = sink(proxy.port(), "?deadline=500ms");
    let rows = || vec![put("a", 1, json!(1))];
    for traffic in [Traffic::RepliesLost, Traffic::Held] {
        proxy.set(traffic);
        let error = sink.write(&batch(1, rows())).await.unwrap_err();
        assert_eq!((error.code(), error.outcome()), (Code::StoreUnavailable, Outcome::Unknown), "{error}");
        proxy.set(Traffic::Forwarded);
        assert_eq!(write(&*sink, 1, rows()).await, Written::Done);
    }
    assert!(receiver.take().len() >= 3, "it was sent again");
}

#[tokio::test]
async fn urls_and_other_servers_are_rejected() {
    for (url, expected) in [
        ("https://host/hook", "the secret that signs requests is missing"),
        ("https://whsec_c2hvcnQ@host/hook", "fewer than 16 bytes"),
        ("https://not*base64@host/hook", "whsec_ and base64"),
        ("https://whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw@host/hook?events=0", "events is 1 to 1000"),
    ] {
        let error = open(url, Layout::whole("s", "", "t")).err().unwrap();
        assert_eq!(error.code(), Code::ConfigInvalid);
        assert!(error.message().contains(expected), "{error}");
        assert!(!error.message().contains("MfKQ") && !error.message().contains("c2hv"), "{error}");
    }
    let nobody = keystead_testkit::servers::free_ports(1).unwrap()[0];
    let error = sink(nobody, "").probe().await.unwrap_err();
    assert!(error.message().contains("cannot connect to 127.0.0.1"), "{error}");
    let Some(server) = found("nats", keystead_testkit::servers::SharedServer::get(&nats::NATS).await) else {
        return;
    };
    let error = sink(server.site().port(), "?deadline=2s").probe().await.unwrap_err();
    assert_eq!(error.code(), Code::StoreUnavailable, "{error}");
}
