//! Messages of the upstream as events.

use serde_json::json;

use crate::client::Http;
use crate::open;
use crate::resp::until;

#[test]
fn messages_of_the_upstream_are_events() {
    let Some((redis, server, mut http)) = open() else { return };
    let mut news = Http::connect(&server).events("/subscribe/news/more/news", &[]);
    assert_eq!(
        [news.next(), news.next(), news.next()],
        ["subscribe,news,1", "subscribe,more,2", "subscribe,news,2"]
    );
    let mut users = Http::connect(&server).events("/psubscribe/user:*", &[]);
    assert_eq!(users.next(), "psubscribe,user:*,1");
    assert_eq!(http.get("/publish/news/a,b").json(), json!({"result": 1}));
    assert_eq!(http.get("/publish/user:7/hello").json(), json!({"result": 1}));
    assert_eq!(news.next(), "message,news,a,b");
    assert_eq!(users.next(), "pmessage,user:*,user:7,hello");
    // A client that goes leaves no subscription behind.
    drop(news);
    let mut direct = crate::direct(redis.ports()[0]);
    until("it is gone", || direct.ask("PUBSUB NUMSUB news") == "[news :0]");
    assert_eq!(direct.ask("PUBSUB NUMPAT"), ":1");
}

#[test]
fn events_end_with_the_upstream() {
    let Some((mut redis, server, mut http)) = open() else { return };
    let mut news = Http::connect(&server).events("/subscribe/news", &[]);
    assert_eq!(news.next(), "subscribe,news,1");
    redis.kill();
    assert!(news.try_next().is_err(), "the response is aborted");
    let response = http.get("/subscribe/news");
    assert_eq!(response.status, 503);
    assert!(response.error().starts_with("ERR upstream: cannot connect to "), "{response:?}");
    redis.restart();
    let mut news = Http::connect(&server).events("/subscribe/news", &[]);
    assert_eq!(news.next(), "subscribe,news,1");
    assert_eq!(http.get("/publish/news/again").json(), json!({"result": 1}));
    assert_eq!(news.next(), "message,news,again");
}
