//! A URL of one store at a server of another kind: an error that names what was expected, within the deadline and without the password.

use std::sync::Arc;

use keystead_core::{Code, Outcome, Stopwatch, SystemClock};
use keystead_testkit::servers::{Kind, etcd, keystead, nats, postgres, redis};

use super::server;

const DEADLINE_MS: u64 = 1_600;

/// A URL with a login, and what the error of a server of another kind has. Those of HTTP name the server only.
const URLS: &[(&str, &str)] = &[
    ("redis://:hidden@", "does not speak RESP"),
    ("redis+cluster://:hidden@", "does not speak RESP"),
    ("upstash+http://hidden@", ""),
    ("postgres://postgres:hidden@", "PostgreSQL"),
    ("dynamodb://id:hidden@tests?region=eu-west-1&endpoint=http://", ""),
    ("denokv://hidden@", ""),
    ("nats://user:hidden@", "NATS server"),
    ("etcd://user:hidden@", ""),
    ("durable-object+http://hidden@", ""),
    ("d1+http://hidden@", ""),
    ("workers-kv+http://hidden@", ""),
];

/// The servers, and the schemes that are right for them.
const SERVERS: &[(&Kind, &str)] = &[
    (&redis::REDIS, "redis"),
    (&postgres::POSTGRES, "postgres"),
    // Over HTTP.
    (&keystead::KEYSTEAD, "upstash"),
    (&nats::NATS, "nats"),
    (&etcd::ETCD, "etcd"),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_another_kind_is_reported_within_the_deadline() {
    let mut wrong = Vec::new();
    for (kind, right) in SERVERS {
        let Some(server) = server(kind).await else { continue };
        let (port, mut opening) = (server.site().port(), tokio::task::JoinSet::new());
        for (start, expected) in URLS.iter().filter(|(start, _)| !start.starts_with(right)) {
            let separator = if start.contains('?') { '&' } else { '?' };
            let url = format!("{start}127.0.0.1:{port}{separator}deadline={DEADLINE_MS}ms");
            opening.spawn(async move {
                let since = Stopwatch::start();
                let error = keystead_stores::connect(&url, Arc::new(SystemClock)).await.err();
                let ms = since.elapsed().as_millis() as u64;
                let Some(error) = error else { return Err(format!("{url} was opened")) };
                let text = format!("{error:?}");
                let typed = error.code() == Code::StoreUnavailable && error.outcome() == Outcome::NotApplied;
                let says = text.contains(expected) && text.contains(&port.to_string());
                match typed && says && !text.contains("hidden") && ms <= DEADLINE_MS + 1_000 {
                    true => Ok(()),
                    false => Err(format!("{url}, a {} server: {text} after {ms} ms", kind.name)),
                }
            });
        }
        wrong.extend(opening.join_all().await.into_iter().filter_map(Result::err));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
