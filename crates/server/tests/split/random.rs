//! Random commands reply through split mode as they do on a server with a database of its own, byte for byte.

use keystead_commands::Random;
use serde_json::{Value, json};

use super::{client::Http, common, compute, storage};

const REQUESTS: usize = 150;
const PER_REQUEST: usize = 12;

/// Templates: k a key of the family, e an element, v a value, n a number, s a score, i an index.
const FAMILIES: [(&str, &[&str]); 6] = [
    (
        "str",
        &[
            "SET k v",
            "SET k v KEEPTTL",
            "SET k v EXAT 4102444800",
            "SET k v NX",
            "SET k v XX GET",
            "GET k",
            "GETSET k v",
            "APPEND k v",
            "INCR k",
            "INCRBY k n",
            "DECR k",
            "INCRBYFLOAT k s",
            "STRLEN k",
            "GETRANGE k i i",
            "SETRANGE k n v",
            "MSET k v k v",
            "MGET k k",
            "GETDEL k",
            "GETEX k PERSIST",
            "SETBIT k n 1",
            "BITCOUNT k",
            "SETNX k v",
            "LCS k k LEN",
        ],
    ),
    (
        "hash",
        &[
            "HSET k e v e v",
            "HGET k e",
            "HDEL k e e",
            "HINCRBY k e n",
            "HINCRBYFLOAT k e s",
            "HLEN k",
            "HMGET k e e",
            "HEXISTS k e",
            "HSETNX k e v",
            "HSTRLEN k e",
            "HEXPIREAT k 4102444800 FIELDS 1 e",
            "HEXPIRETIME k FIELDS 1 e",
            "HPERSIST k FIELDS 1 e",
        ],
    ),
    (
        "list",
        &[
            "LPUSH k e e",
            "RPUSH k e",
            "LPOP k",
            "RPOP k n",
            "LRANGE k i i",
            "LINDEX k i",
            "LSET k i e",
            "LINSERT k BEFORE e e",
            "LREM k i e",
            "LTRIM k i i",
            "LLEN k",
            "LMOVE k k LEFT RIGHT",
            "RPOPLPUSH k k",
            "LPOS k e",
        ],
    ),
    (
        "set",
        &[
            "SADD k e e",
            "SREM k e",
            "SCARD k",
            "SISMEMBER k e",
            "SMISMEMBER k e e",
            "SINTERSTORE k k k",
            "SUNIONSTORE k k k",
            "SMOVE k k e",
            "SINTERCARD 2 k k",
        ],
    ),
    (
        "zset",
        &[
            "ZADD k s e s e",
            "ZADD k NX s e",
            "ZADD k GT CH s e",
            "ZINCRBY k s e",
            "ZREM k e",
            "ZRANGE k i i WITHSCORES",
            "ZRANGE k i i REV",
            "ZCARD k",
            "ZCOUNT k -inf s",
            "ZSCORE k e",
            "ZMSCORE k e e",
            "ZRANK k e",
            "ZPOPMIN k",
            "ZPOPMAX k n",
            "ZUNIONSTORE k 2 k k",
            "ZINTERSTORE k 2 k k",
            "ZREMRANGEBYRANK k i i",
            "ZRANGESTORE k k 0 -1",
        ],
    ),
    (
        "stream",
        &[
            "XADD k * f v",
            "XLEN k",
            "XRANGE k - +",
            "XREVRANGE k + -",
            "XTRIM k MAXLEN n",
            "XGROUP CREATE k e 0",
            "XREADGROUP GROUP e e COUNT 2 STREAMS k >",
            "XPENDING k e",
            "XACK k e 1-1",
            "XDEL k 1-1",
        ],
    ),
];
const GENERIC: [&str; 13] = [
    "DEL k",
    "EXISTS k k",
    "TYPE k",
    "RENAME k k",
    "COPY k k REPLACE",
    "EXPIREAT k 4102444800",
    "EXPIREAT k 1",
    "EXPIRETIME k",
    "PERSIST k",
    "OBJECT ENCODING k",
    "DBSIZE",
    "TOUCH k",
    "SORT k ALPHA",
];
const SCRIPTS: [&str; 3] = [
    "local n = redis.call('incr', KEYS[1]) redis.call('rpush', KEYS[2], n) return {n, redis.call('llen', KEYS[2])}",
    "redis.call('set', KEYS[1], 'x') redis.call('del', KEYS[2]) return redis.call('get', KEYS[1]) .. cjson.encode({1, 2.5})",
    "redis.call('set', KEYS[1], 'x') return redis.call('get', 'str:' .. #redis.call('get', KEYS[1])) or {redis.call('lpop', KEYS[2])}",
];
const VALUES: [&str; 8] = [
    "",
    "1",
    "17",
    "text",
    "a longer text that is not inline, a longer text",
    "3.25",
    "9007199254740993",
    "\u{e9}\0",
];
const SCORES: [&str; 6] = ["1", "2.5", "-3", "0.1", "-0", "1e10"];

fn command(random: &mut Random, serial: usize) -> Vec<String> {
    let of = random.below(FAMILIES.len());
    let key = |random: &mut Random| {
        // Now and then the key of another family, for errors of types.
        let of = if random.below(12) == 0 { random.below(FAMILIES.len()) } else { of };
        format!("{}:{}", FAMILIES[of].0, random.below(4))
    };
    if random.below(25) == 0 {
        let script = SCRIPTS[random.below(SCRIPTS.len())].to_owned();
        return vec!["EVAL".into(), script, "2".into(), key(random), key(random)];
    }
    let templates = FAMILIES[of].1;
    let template = if random.below(6) == 0 {
        GENERIC[random.below(GENERIC.len())]
    } else {
        templates[random.below(templates.len())]
    };
    let words = template.split(' ').enumerate().map(|(n, word)| match word {
        "k" if n > 0 => key(random),
        "e" => format!("e{}", random.below(6)),
        "v" => VALUES[random.below(VALUES.len())].to_owned(),
        "n" => random.below(20).to_string(),
        "s" => SCORES[random.below(SCORES.len())].to_owned(),
        "i" => (random.below(7) as i64 - 3).to_string(),
        "*" => format!("{serial}-1"),
        word => word.to_owned(),
    });
    words.collect()
}

/// A transaction that counts all keys after a change is the one thing that split mode refuses.
fn counts(command: &[String]) -> bool {
    command[0] == "DBSIZE"
}

#[test]
fn random_commands_reply_as_on_a_server() {
    let seed = std::env::var("KEYSTEAD_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    let mut random = Random::new(seed);
    let plain = common::start(&["--durability", "memory", "--shards", "1"]);
    let storage = storage(&[]);
    let services = [compute(&storage), compute(&storage)];
    let mut plain = Http::connect(&plain);
    let mut split = services.each_ref().map(Http::connect);
    for n in 0..REQUESTS {
        let is_transaction = random.below(4) == 0;
        let mut commands: Vec<Vec<String>> =
            (0..PER_REQUEST).map(|m| command(&mut random, n * PER_REQUEST + m + 1)).collect();
        commands.retain(|command| !is_transaction || !counts(command));
        let target = if is_transaction { "/multi-exec" } else { "/pipeline" };
        let body = json!(commands).to_string();
        // Now one process, now the other.
        let http = &mut split[random.below(2)];
        let (found, wanted) = (http.post(target, &body), plain.post(target, &body));
        let [found_json, wanted_json] = [&found, &wanted].map(|response| response.json());
        if let (Value::Array(found), Value::Array(wanted)) = (&found_json, &wanted_json) {
            for (m, (found, wanted)) in found.iter().zip(wanted).enumerate() {
                assert_eq!(found, wanted, "KEYSTEAD_SEED={seed}, request {n}: {:?}", commands[m]);
            }
        }
        assert_eq!(found.text(), wanted.text(), "KEYSTEAD_SEED={seed}, request {n}: {body}");
        assert_eq!(found.status, wanted.status, "KEYSTEAD_SEED={seed}, request {n}");
    }
    // What is in the rows is what the server has.
    for family in ["str", "list", "zset"] {
        for n in 0..4 {
            let key = format!("{family}:{n}");
            for question in [json!(["DUMP", key]), json!(["EXPIRETIME", key]), json!(["TYPE", key])] {
                let headers = ["Upstash-Encoding: base64"];
                let ask =
                    |http: &mut Http| http.ask("POST", "/", &headers, question.to_string().as_bytes()).json();
                assert_eq!(ask(&mut split[0]), ask(&mut plain), "KEYSTEAD_SEED={seed}, {question}");
            }
        }
    }
}
