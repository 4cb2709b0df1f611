//! redis-rs, synchronous, in RESP2 and RESP3.

use std::collections::HashMap;

use keystead_testkit::server::Server;
use libtest_mimic::Failed;
use redis::streams::{StreamReadOptions, StreamReadReply};
use redis::{Commands, Connection, RedisResult};

pub(crate) fn run(server: &Server) -> Result<(), Failed> {
    for protocol in ["resp2", "resp3"] {
        let url = format!("redis://{}/?protocol={protocol}", server.resp()?);
        let client = redis::Client::open(url)?;
        let mut con = client.get_connection()?;
        redis::cmd("FLUSHALL").exec(&mut con)?;
        values(&mut con)?;
        transactions(&mut con)?;
        streams(&mut con)?;
        messages(&client, &mut con)?;
    }
    Ok(())
}

fn values(con: &mut Connection) -> RedisResult<()> {
    con.set::<_, _, ()>("text", "grüße")?;
    assert_eq!(con.get::<_, String>("text")?, "grüße");
    assert_eq!(con.get::<_, Option<String>>("nothing")?, None);
    assert_eq!(con.incr::<_, _, i64>("n", 41)?, 41);
    con.hset_multiple::<_, _, _, ()>("hash", &[("a", 1), ("b", 2)])?;
    let all: HashMap<String, i32> = con.hgetall("hash")?;
    assert_eq!(all, HashMap::from([("a".into(), 1), ("b".into(), 2)]));
    con.rpush::<_, _, ()>("list", &[1, 2, 3])?;
    assert_eq!(con.lrange::<_, Vec<i32>>("list", 0, -1)?, [1, 2, 3]);
    assert_eq!(con.blpop::<_, (String, i32)>("list", 0.1)?, ("list".into(), 1));
    con.zadd_multiple::<_, _, _, ()>("zset", &[(1.5, "x"), (0.5, "y")])?;
    let ranked: Vec<(String, f64)> = con.zrange_withscores("zset", 0, -1)?;
    assert_eq!(ranked, [("y".into(), 0.5), ("x".into(), 1.5)]);
    con.expire::<_, ()>("text", 100)?;
    assert!((1..=100).contains(&con.ttl::<_, i64>("text")?));
    let mut keys: Vec<String> = con.scan::<String>()?.collect::<RedisResult<Vec<_>>>()?;
    keys.sort_unstable();
    assert_eq!(keys, ["hash", "list", "n", "text", "zset"]);
    let wrong: RedisResult<i64> = con.incr("text", 1);
    assert_eq!(wrong.unwrap_err().code(), Some("ERR"));
    Ok(())
}

fn transactions(con: &mut Connection) -> RedisResult<()> {
    let (a, b): (i64, String) =
        redis::pipe().atomic().incr("count", 2).set("k", "v").ignore().get("k").query(con)?;
    assert_eq!((a, b.as_str()), (2, "v"));
    let doubled: (i64,) = redis::transaction(con, &["count"], |con, pipe| {
        let now: i64 = con.get("count")?;
        pipe.set("count", now * 2).ignore().get("count").query(con)
    })?;
    assert_eq!(doubled.0, 4);
    Ok(())
}

fn streams(con: &mut Connection) -> RedisResult<()> {
    let id: String = con.xadd("stream", "*", &[("field", "value")])?;
    let read: StreamReadReply =
        con.xread_options(&["stream"], &["0"], &StreamReadOptions::default().count(10))?;
    assert_eq!(read.keys[0].ids[0].id, id);
    assert_eq!(read.keys[0].ids[0].get::<String>("field").as_deref(), Some("value"));
    Ok(())
}

fn messages(client: &redis::Client, con: &mut Connection) -> RedisResult<()> {
    let mut listener = client.get_connection()?;
    let mut pubsub = listener.as_pubsub();
    pubsub.subscribe("news")?;
    pubsub.psubscribe("n*")?;
    assert_eq!(con.publish::<_, _, i64>("news", "hello")?, 2);
    for _ in 0..2 {
        let message = pubsub.get_message()?;
        assert_eq!((message.get_channel_name(), message.get_payload::<String>()?), ("news", "hello".into()));
    }
    Ok(())
}
