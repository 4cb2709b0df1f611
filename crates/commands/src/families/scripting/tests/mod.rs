//! Scripts in the test fixture: their replies, what they may not do, and how runaway scripts end.

mod functions;
mod hostile;
mod sandbox;

use keystead_core::ShardId;

use crate::errors::Fail;
use crate::reply::Reply;
use crate::testing::{Desk, Shards, shown};

/// The reply of a script without keys, in RESP2.
fn eval(desk: &mut Desk, script: &str) -> String {
    shown(&desk.run_args(&["EVAL", script, "0"]))
}

/// Runs each script and compares its reply in RESP2.
fn expect(desk: &mut Desk, scripts: &[(&str, &str)]) {
    for (script, expected) in scripts {
        assert_eq!(eval(desk, script), *expected, "{script}");
    }
}

#[test]
fn values_and_replies_convert_both_ways() {
    let mut desk = Desk::new();
    expect(
        &mut desk,
        &[
            ("return 1.9", ":1"),
            ("return -1.9", ":-1"),
            ("return 'a'", "$1 a"),
            ("return true", ":1"),
            ("return false", "$-1"),
            ("return {1,{'a'},nil,3}", "*2 :1 *1 $1 a"),
            ("return {ok='fine'}", "+fine"),
            ("return {err='MY words'}", "-MY words"),
            ("return {double=1.5}", "$3 1.5"),
            ("return {map={a=1}}", "*2 $1 a :1"),
            ("return redis.call('SET','k','v').ok", "$2 OK"),
            ("return redis.call('GET','k')", "$1 v"),
            ("return type(redis.call('GET','none'))", "$7 boolean"),
            ("return redis.call('SET','n',1.5)", "+OK"),
            ("return redis.call('GET','n')", "$3 1.5"),
            ("return redis.call('HSET','h','a',1)", ":1"),
            ("return redis.call('HGETALL','h')", "*2 $1 a $1 1"),
            ("redis.setresp(3) return redis.call('HGETALL','h').map.a", "$1 1"),
            ("redis.setresp(3) return type(redis.call('GET','none'))", "$3 nil"),
            ("return redis.call('PING')", "+PONG"),
            ("return redis.call('PUBLISH','c','m')", ":0"),
        ],
    );
    assert_eq!(
        shown(&desk.run_args(&["EVAL", "return {KEYS[1],ARGV[1],#KEYS,#ARGV}", "1", "k", "v", "w"])),
        "*4 $1 k $1 v :1 :2"
    );
}

#[test]
fn errors_have_redis_texts_and_positions() {
    let mut desk = Desk::new();
    desk.run("SET k v");
    let sha = |script: &str| String::from_utf8(super::sha1::hex(script.as_bytes()).to_vec()).unwrap();
    for (script, words) in [
        ("return redis.call('INCR','k')", "ERR value is not an integer or out of range"),
        ("return redis.call('NOPE')", "ERR Unknown Redis command called from script"),
        ("return redis.call('GET')", "ERR Wrong number of args calling Redis command from script"),
        ("return redis.call('MULTI')", "ERR This Redis command is not allowed from script"),
        ("return redis.call('BLPOP','l',0)", "ERR This Redis command is not allowed from script"),
        ("return redis.call({})", "ERR Lua redis lib command arguments must be strings or integers"),
        ("return redis.call()", "ERR Please specify at least one argument for this redis lib call"),
        ("error('x')", "ERR user_script:1: x"),
        ("error({err='MY x'})", "MY x"),
        ("return cjson.decode('[1,')", "ERR user_script:1: Expected value but found T_END at character 4"),
    ] {
        let expected = format!("-{words} script: {}, on @user_script:1.", sha(script));
        assert_eq!(eval(&mut desk, script), expected);
    }
    expect(
        &mut desk,
        &[
            ("return redis.pcall('NOPE')", "-ERR Unknown Redis command called from script"),
            (
                "return {pcall(redis.call,'INCR','k')}",
                "*2 $-1 $43 ERR value is not an integer or out of range",
            ),
            ("x y", "-ERR Error compiling script (new function): user_script:1: '=' expected near 'y'"),
        ],
    );
}

#[test]
fn a_script_that_fails_keeps_what_it_wrote() {
    let mut desk = Desk::new();
    let reply = desk.run_args(&["EVAL", "redis.call('SET','k','v') error('x')", "0"]);
    assert!(matches!(&reply, Reply::Error(fail @ Fail::Text(_)) if !fail.undoes()));
    desk.expect(&[("GET k", "$1 v")]);
}

#[test]
fn scripts_are_cached_by_sha1_until_they_are_flushed() {
    let mut desk = Desk::new();
    let one = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    desk.expect(&[(&format!("EVALSHA {one} 0"), "-NOSCRIPT No matching script. Please use EVAL.")]);
    assert_eq!(eval(&mut desk, "return 1"), ":1");
    desk.expect(&[
        (&format!("EVALSHA {one} 0"), ":1"),
        (&format!("EVALSHA {} 0", one.to_uppercase()), ":1"),
        (&format!("EVALSHA_RO {one} 0"), ":1"),
        (&format!("SCRIPT EXISTS {one} x"), "*2 :1 :0"),
        ("SCRIPT FLUSH", "+OK"),
        (&format!("EVALSHA {one} 0"), "-NOSCRIPT No matching script. Please use EVAL."),
        ("SCRIPT KILL", "-NOTBUSY No scripts in execution right now."),
        ("SCRIPT DEBUG NO", "+OK"),
        ("EVAL x a", "-ERR value is not an integer or out of range"),
        ("EVAL x -1", "-ERR Number of keys can't be negative"),
        ("EVAL x 1", "-ERR Number of keys can't be greater than number of args"),
    ]);
    let load = ["SCRIPT", "LOAD", "return 1"];
    assert_eq!(shown(&desk.run_args(&load)), format!("$40 {one}"));
    desk.expect(&[(&format!("EVALSHA {one} 0"), ":1")]);
}

#[test]
fn read_only_scripts_cannot_write() {
    let mut desk = Desk::new();
    let write = "return redis.pcall('SET','k','v')";
    let error = "-ERR Write commands are not allowed from read-only scripts.";
    assert_eq!(shown(&desk.run_args(&["EVAL_RO", write, "0"])), error);
    assert_eq!(shown(&desk.run_args(&["EVAL_RO", "return redis.pcall('PUBLISH','c','m')", "0"])), error);
    let flagged = format!("#!lua flags=no-writes\n{write}");
    assert_eq!(eval(&mut desk, &flagged), error);
    assert_eq!(shown(&desk.run_args(&["EVAL_RO", "return redis.call('GET','k')", "0"])), "$-1");
    let unflagged = "-ERR Can not execute a script with write flag using *_ro command.";
    assert_eq!(shown(&desk.run_args(&["EVAL_RO", "#!lua\nreturn 1", "0"])), unflagged);
    assert_eq!(eval(&mut desk, "#!lua flags=allow-key-locking\nreturn 1"), ":1");
}

#[test]
fn keys_of_another_shard_are_errors() {
    let mut desk = Desk::at(Box::new(Shards(2)));
    let on = |shard| {
        (0..)
            .map(|n| format!("k{n}"))
            .find(|key| keystead_core::key::shard_of(key.as_bytes(), 2) == ShardId(shard))
            .unwrap()
    };
    let error = "-ERR Script attempted to access a non local key in a cluster node";
    let get = |key: &str| format!("return redis.pcall('GET','{key}')");
    assert_eq!(eval(&mut desk, &get(&on(0))), "$-1");
    assert_eq!(eval(&mut desk, &get(&on(1))), error);
    assert_eq!(eval(&mut desk, "return redis.pcall('DBSIZE')"), error);
    assert_eq!(eval(&mut desk, "return redis.pcall('PING')"), "+PONG");
}

#[test]
fn blocking_commands_reply_at_once() {
    let mut desk = Desk::new();
    let error = "-ERR xread command is not allowed with BLOCK option from scripts";
    assert_eq!(eval(&mut desk, "return redis.pcall('XREAD','BLOCK',0,'STREAMS','s','$')"), error);
    assert!(desk.wait.is_none());
}
