//! DynamoDB, on the servers that speak its protocol, and on a server of the test that replies with the exceptions that only AWS has.

use keystead_core::{Code, Outcome};
use keystead_testkit::servers::dynamodb::{DYNALITE, DYNAMODB};
use keystead_testkit::servers::{ask, free_ports, redis};

use super::fake::{response, serve};
use super::servers::{self, UrlOf, error_of};
use super::{add_1, key, open, server};

const URL: UrlOf = |port, parameters| url_of(port, "faults", &format!("create=true&{parameters}"));

fn url_of(port: u16, table: &str, parameters: &str) -> String {
    let endpoint = format!("endpoint=http://127.0.0.1:{port}");
    format!("dynamodb://id:hidden@{table}?region=eu-west-1&{endpoint}&{parameters}")
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_and_restarted() {
    servers::killed_and_restarted(&DYNAMODB, URL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn paused() {
    servers::paused(&DYNAMODB, URL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_is_cut_off_is_settled() {
    servers::cut_off(&DYNAMODB, URL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_write_is_counted_as_reported() {
    servers::late(&DYNAMODB, URL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_applies_are_all_counted() {
    let Some(server) = server(&DYNAMODB).await else { return };
    servers::concurrent(&server, URL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_applies_are_all_counted_where_a_lost_swap_returns_no_item() {
    let Some(server) = server(&DYNALITE).await else { return };
    servers::concurrent(&server, URL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_of_dynalite_that_is_cut_off_is_settled() {
    servers::cut_off(&DYNALITE, URL).await;
}

/// Sends a request past the store.
async fn call(port: u16, operation: &str, body: &str) -> String {
    let request = format!(
        "POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/x-amz-json-1.0\r\n\
         x-amz-target: DynamoDB_20120810.{operation}\r\nx-amz-date: 20150830T123600Z\r\n\
         authorization: AWS4-HMAC-SHA256 Credential=id/20150830/eu-west-1/dynamodb/aws4_request, \
         SignedHeaders=host, Signature=0\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    String::from_utf8_lossy(&ask(port, request.as_bytes()).await).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_table_is_reported_and_created_only_if_the_url_says_so() {
    let Some(server) = server(&DYNAMODB).await else { return };
    let port = server.site().port();
    let error = error_of(&url_of(port, "limits", "")).await;
    assert_eq!(error.code(), Code::ConfigInvalid, "{error}");
    assert!(error.message().contains("there is no table 'limits' in eu-west-1: create=true"), "{error}");
    assert!(call(port, "DescribeTable", r#"{"TableName":"limits"}"#).await.contains("ResourceNotFound"));

    let store = open(&url_of(port, "limits", "create=true"));
    assert_eq!(add_1(&*store, &key("a")).await.unwrap(), 1);
    // The attribute by which items are deleted is set a moment later.
    while !call(port, "DescribeTimeToLive", r#"{"TableName":"limits"}"#).await.contains("reclaim_at") {
        tokio::task::yield_now().await;
    }
    let store = open(&url_of(port, "limits", ""));
    assert_eq!(add_1(&*store, &key("a")).await.unwrap(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_with_another_key_and_an_item_of_somebody_else_are_reported() {
    let Some(server) = server(&DYNAMODB).await else { return };
    let port = server.site().port();
    let table = |name: &str, key: &str| {
        format!(
            r#"{{"TableName":"{name}","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{{"AttributeName":"{key}",
            "AttributeType":"S"}}],"KeySchema":[{{"AttributeName":"{key}","KeyType":"HASH"}}]}}"#
        )
    };
    call(port, "CreateTable", &table("other", "id")).await;
    let error = error_of(&url_of(port, "other", "")).await;
    assert_eq!(error.code(), Code::ConfigInvalid, "{error}");
    assert!(error.message().contains("its only key is 'key'"), "{error}");

    call(port, "CreateTable", &table("mixed", "key")).await;
    let item = r#"{"TableName":"mixed","Item":{"key":{"S":"theirs"},"version":{"S":"one"}}}"#;
    call(port, "PutItem", item).await;
    let store = open(&url_of(port, "mixed", ""));
    let error = add_1(&*store, &key("theirs")).await.unwrap_err();
    assert_eq!((error.code(), error.outcome()), (Code::Corrupt, Outcome::NotApplied), "{error:?}");
    let item = call(port, "GetItem", r#"{"TableName":"mixed","Key":{"key":{"S":"theirs"}}}"#).await;
    assert!(item.contains("one") && !item.contains("record"), "{item}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_server_and_one_of_another_kind_are_reported() {
    let port = free_ports(1).unwrap()[0];
    let error = error_of(&url_of(port, "limits", "")).await;
    assert!(error.message().contains(&format!("cannot connect to 127.0.0.1:{port}")), "{error}");
    let Some(server) = server(&redis::REDIS).await else { return };
    let error = error_of(&url_of(server.site().port(), "limits", "")).await;
    assert_eq!(error.code(), Code::StoreUnavailable, "{error}");
}

/// A table in which nothing is, and that replies this to writes.
async fn replies_to_writes(reply: Vec<u8>) -> u16 {
    serve(move |head| match head.contains("x-amz-target: dynamodb_20120810.getitem") {
        true => response("200 OK", "", b"{}"),
        false => reply.clone(),
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn exceptions_of_aws_are_errors_that_say_what_to_do() {
    for (exception, expected) in [
        ("ProvisionedThroughputExceededException", "throttles"),
        ("ThrottlingException", "throttles"),
        ("RequestLimitExceeded", "throttles"),
        ("UnrecognizedClientException", "rejected the access key or secret"),
        ("InvalidSignatureException", "rejected the access key or secret"),
        ("ExpiredTokenException", "it has expired"),
        ("AccessDeniedException", "allow dynamodb:GetItem and dynamodb:PutItem"),
    ] {
        // What AWS writes about a signature repeats the signed headers.
        let message = if exception.starts_with("Inv") { "hidden" } else { "words" };
        let body = format!(r#"{{"__type":"com.amazon.coral.service#{exception}","message":"{message}"}}"#);
        let port = replies_to_writes(response("400 Bad Request", "", body.as_bytes())).await;
        let error = add_1(&*open(&url_of(port, "limits", "")), &key("a")).await.unwrap_err();
        assert_eq!(
            (error.code(), error.outcome()),
            (Code::StoreUnavailable, Outcome::NotApplied),
            "{error:?}"
        );
        assert!(error.message().contains(expected), "{error}");
        assert!(!format!("{error:?}").contains("hidden"), "{error:?}");
    }
}

/// DynamoDB itself may have applied such a write, so it is settled: here by reads that find nothing, until the time is over.
#[tokio::test(flavor = "multi_thread")]
async fn an_internal_error_is_of_unknown_outcome() {
    let body = br#"{"__type":"com.amazonaws.dynamodb.v20120810#InternalServerError"}"#;
    let port = replies_to_writes(response("500 Internal Server Error", "", body)).await;
    let store = open(&url_of(port, "limits", "deadline=2400ms"));
    let error = add_1(&*store, &key("a")).await.unwrap_err();
    assert_eq!((error.code(), error.outcome()), (Code::StoreUnavailable, Outcome::Unknown), "{error:?}");
    assert!(error.message().contains("InternalServerError"), "{error}");
}

#[test]
fn a_url_with_a_mistake_is_invalid() {
    for url in [
        "dynamodb:limits?region=eu-west-1",
        "dynamodb://?region=eu-west-1",
        "dynamodb://id:hidden@li?region=eu-west-1",
        "dynamodb://id:hidden@limits/table?region=eu-west-1",
        "dynamodb://id:hidden@limits?region=eu/west",
        "dynamodb://hidden@limits?region=eu-west-1",
        "dynamodb://id:hidden@limits?region=eu-west-1&endpoint=localhost",
        "dynamodb://id:hidden@limits?region=eu-west-1&endpoint=http://localhost/path",
        "dynamodb://id:hidden@limits?region=eu-west-1&create=maybe",
        "dynamodb://id:hidden@limits?region=eu-west-1&deadline=1ms",
        "dynamodb://id:hidden@limits?region=eu-west-1&ttl=1s",
    ] {
        let error = keystead_stores::open(url).err().unwrap_or_else(|| panic!("{url} was opened"));
        assert_eq!(error.code(), Code::ConfigInvalid, "{url}");
        assert!(!error.to_string().contains("hidden"), "{error}");
    }
}
