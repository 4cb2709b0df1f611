//! SORT, compared with the replies of Redis 7.0.

use keystead_model::Bytes;
use keystead_model::keyspace::Expire;

use crate::hub::Hub;
use crate::testing::{Desk, Shards, shown};

fn desk() -> Desk {
    let mut desk = Desk::new();
    let now = desk.now;
    let bytes = |text: &str| Bytes::from(text.as_bytes());
    let mut list = desk.keys.list_mut(b"l", now).unwrap();
    for element in ["3", "1", "2"] {
        list.push_back(&bytes(element));
    }
    drop(list);
    let mut zset = desk.keys.zset_mut(b"z", now).unwrap();
    for (member, score) in [("a", 3.0), ("b", 1.0), ("c", 2.0)] {
        zset.insert(&bytes(member), score);
    }
    drop(zset);
    for (key, value) in [("w_1", "3"), ("w_2", "2"), ("w_3", "1"), ("x", "text")] {
        desk.keys.set_str(key.as_bytes(), bytes(value), Expire::Keep, now).unwrap();
    }
    desk.run("SADD s c a b");
    desk.run("HSET o_1 f x g 9");
    desk.run("HSET o_2 f y g 8");
    desk
}

fn stored(desk: &mut Desk, key: &str) -> Vec<String> {
    let list = desk.keys.list(key.as_bytes(), desk.now).unwrap();
    list.into_iter().flatten().map(|(_, element)| String::from_utf8_lossy(element).into_owned()).collect()
}

#[test]
fn elements_are_sorted_by_number_or_text() {
    desk().expect(&[
        ("SORT l", "*3 $1 1 $1 2 $1 3"),
        ("SORT l DESC", "*3 $1 3 $1 2 $1 1"),
        ("SORT_RO l ALPHA ASC DESC ASC", "*3 $1 1 $1 2 $1 3"),
        ("SORT s", "-ERR One or more scores can't be converted into double"),
        ("SORT s ALPHA DESC", "*3 $1 c $1 b $1 a"),
        ("SORT z ALPHA LIMIT 1 1", "*1 $1 b"),
        ("SORT nothing", "*0"),
        ("SORT x", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SORT o_1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
    ]);
}

#[test]
fn limits_are_clamped() {
    desk().expect(&[
        ("SORT l LIMIT 0 0", "*0"),
        ("SORT l LIMIT -1 2", "*2 $1 1 $1 2"),
        ("SORT l LIMIT 5 2", "*0"),
        ("SORT l LIMIT 1 -5", "*2 $1 2 $1 3"),
        ("SORT l LIMIT 2 9223372036854775807", "*1 $1 3"),
        ("SORT l LIMIT x 1", "-ERR value is not an integer or out of range"),
        ("SORT l LIMIT 1", "-ERR syntax error"),
        ("SORT o_1 LIMIT x 1", "-ERR value is not an integer or out of range"),
    ]);
}

#[test]
fn by_and_get_patterns_are_resolved() {
    desk().expect(&[
        ("SORT l BY w_*", "*3 $1 3 $1 2 $1 1"),
        ("SORT l BY w_* GET # GET w_*", "*6 $1 3 $1 1 $1 2 $1 2 $1 1 $1 3"),
        ("SORT l GET none_* GET plain", "*6 $-1 $-1 $-1 $-1 $-1 $-1"),
        ("SORT l BY o_*->g GET o_*->f", "*3 $-1 $1 y $1 x"),
        ("SORT l BY o_*->f", "-ERR One or more scores can't be converted into double"),
        ("SORT l BY o_*->f ALPHA GET o_*->f", "*3 $-1 $1 x $1 y"),
        ("SORT l BY o_*-> GET o_*->", "*3 $-1 $-1 $-1"),
        ("SORT l GET o_*", "*3 $-1 $-1 $-1"),
    ]);
}

#[test]
fn without_sorting_a_value_keeps_its_order() {
    let mut desk = desk();
    desk.expect(&[
        ("SORT l BY nosort", "*3 $1 3 $1 1 $1 2"),
        ("SORT l BY nosort DESC", "*3 $1 2 $1 1 $1 3"),
        ("SORT l BY nosort DESC LIMIT 1 1", "*1 $1 1"),
        ("SORT l BY # LIMIT 1 2", "*2 $1 1 $1 2"),
        ("SORT z BY nosort", "*3 $1 b $1 c $1 a"),
        ("SORT z BY nosort DESC", "*3 $1 a $1 c $1 b"),
        ("SORT z BY nosort DESC LIMIT 1 1", "*1 $1 c"),
        ("SORT z BY nosort LIMIT -1 2", "*2 $1 b $1 c"),
        ("SORT z BY nosort LIMIT 5 2", "*0"),
        ("SORT z BY nosort LIMIT 0 -5", "*3 $1 b $1 c $1 a"),
    ]);
    // A set has no order.
    assert!(desk.resp("SORT s BY nosort LIMIT 1 5").starts_with("*2 "));
}

#[test]
fn the_result_may_be_stored() {
    let mut desk = desk();
    desk.expect(&[("SORT s BY nosort STORE d", ":3")]);
    assert_eq!(stored(&mut desk, "d"), ["a", "b", "c"]);
    desk.expect(&[("SORT s BY nosort DESC STORE d", ":3")]);
    assert_eq!(stored(&mut desk, "d"), ["c", "b", "a"]);
    desk.expect(&[("SORT l GET # GET none_* LIMIT 0 1 STORE d", ":2")]);
    assert_eq!(stored(&mut desk, "d"), ["1", ""]);
    desk.expect(&[
        ("EXPIRE z 10", ":1"),
        ("SORT l STORE l STORE z", ":3"),
        ("TTL z", ":-1"),
        ("TYPE z", "+list"),
    ]);
    desk.expect(&[("SORT l STORE l LIMIT 1 10", ":2")]);
    assert_eq!(stored(&mut desk, "l"), ["2", "3"]);
    desk.expect(&[
        ("SORT nothing STORE d", ":0"),
        ("EXISTS d", ":0"),
        ("SORT l STORE", "-ERR syntax error"),
        ("SORT_RO l STORE d", "-ERR syntax error"),
        ("SORT o_1 foo", "-ERR syntax error"),
    ]);
}

#[test]
fn patterns_may_not_refer_to_other_shards() {
    let mut desk = desk();
    desk.hub = Hub::new(Box::new(Shards(4)));
    desk.run("SADD {t}s 1");
    let denied =
        "option of SORT denied in cluster mode when keys formed by the pattern may be in different slots.";
    for (line, option) in
        [("SORT {t}s BY w_*", "BY"), ("SORT {t}s GET w_*", "GET"), ("SORT {t}s GET *{t}", "GET")]
    {
        let reply = desk.run(line);
        assert_eq!(shown(&reply), format!("-ERR {option} {denied}"), "{line}");
    }
    desk.expect(&[
        ("SORT {t}s BY nosort GET # GET plain", "*2 $1 1 $-1"),
        ("SORT {t}s BY w{t}_* GET x{t}*->f", "*1 $-1"),
    ]);
}
