//! Libraries of functions: loading, calling, listing, dumping.

use crate::ctx::{Ctx, Dialect};
use crate::dispatch;
use crate::testing::{Desk, shown};

const LIBRARY: &str = "#!lua name=lib\nlocal calls = 0\nredis.register_function('count', function(keys, args) calls = calls + 1 return calls end)\nredis.register_function{function_name='get', description='Reads.', flags={'no-writes'}, callback=function(keys) return redis.call('GET', keys[1]) end}\nredis.register_function('set', function(keys, args) return redis.call('SET', keys[1], args[1]) end)";

fn load(desk: &mut Desk, code: &str) -> String {
    shown(&desk.run_args(&["FUNCTION", "LOAD", code]))
}

#[test]
fn functions_are_loaded_called_and_listed() {
    let mut desk = Desk::new();
    assert_eq!(load(&mut desk, LIBRARY), "$3 lib");
    assert_eq!(load(&mut desk, LIBRARY), "-ERR Library 'lib' already exists");
    desk.expect(&[
        ("FCALL set 1 k v", "+OK"),
        ("FCALL get 1 k", "$1 v"),
        ("FCALL_RO get 1 k", "$1 v"),
        // The variables of a library are as they were when it was loaded: every run begins with the same state.
        ("FCALL count 0", ":1"),
        ("FCALL count 0", ":1"),
        ("FCALL_RO set 1 k v", "-ERR Can not execute a script with write flag using *_ro command."),
        ("FCALL nope 0", "-ERR Function not found"),
        ("FCALL get x", "-ERR Bad number of keys provided"),
        (
            "FUNCTION STATS",
            "*4 $14 running_script $-1 $7 engines *2 $3 LUA *4 $15 libraries_count :1 $15 functions_count :3",
        ),
        ("FUNCTION LIST LIBRARYNAME nope", "*0"),
        ("FUNCTION LIST x", "-ERR Unknown argument x"),
        ("FUNCTION DELETE nope", "-ERR Library not found"),
        ("FUNCTION KILL", "-NOTBUSY No scripts in execution right now."),
    ]);
    let list = desk.resp("FUNCTION LIST LIBRARYNAME L*");
    assert!(list.contains("$3 get $11 description $6 Reads. $5 flags *1 +no-writes"), "{list}");
    let other = LIBRARY.replace("name=lib", "name=other");
    assert_eq!(load(&mut desk, &other), "-ERR Function count already exists");
    desk.expect(&[("FUNCTION DELETE lib", "+OK"), ("FCALL get 1 k", "-ERR Function not found")]);
}

#[test]
fn loading_errors_have_redis_texts() {
    let mut desk = Desk::new();
    for (code, words) in [
        ("return 1", "No functions registered"),
        ("x y", "Error compiling function: user_function:2: '=' expected near 'y'"),
        (
            "local x = nil + 1",
            "Error registering functions: ERR user_function:2: attempt to perform arithmetic on a nil value",
        ),
        (
            "redis.call('PING')",
            "Error registering functions: ERR user_function:2: Script attempted to access nonexistent global variable 'call'",
        ),
        (
            "local s = string",
            "Error registering functions: ERR user_function:2: Script attempted to access nonexistent global variable 'string'",
        ),
        (
            "redis.register_function('f')",
            "Error registering functions: ERR calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).",
        ),
        ("while true do end", "Error registering functions: ERR FUNCTION LOAD timeout"),
    ] {
        assert_eq!(load(&mut desk, &format!("#!lua name=lib\n{code}")), format!("-ERR {words}"));
    }
    desk.expect(&[("FUNCTION LIST", "*0")]);
}

#[test]
fn a_dump_restores_its_libraries() {
    let mut desk = Desk::new();
    load(&mut desk, LIBRARY);
    let crate::Reply::Bulk(dump) = desk.run("FUNCTION DUMP") else { panic!("no dump") };
    let restore = |desk: &mut Desk, policy: &str| {
        shown(&desk.run_args(&[b"FUNCTION", &b"RESTORE"[..], &dump, policy.as_bytes()]))
    };
    assert_eq!(restore(&mut desk, "APPEND"), "-ERR Library lib already exists");
    assert_eq!(restore(&mut desk, "REPLACE"), "+OK");
    desk.expect(&[("FUNCTION FLUSH", "+OK"), ("FCALL count 0", "-ERR Function not found")]);
    assert_eq!(restore(&mut desk, "FLUSH"), "+OK");
    desk.expect(&[
        ("FCALL count 0", ":1"),
        ("FUNCTION RESTORE x", "-ERR DUMP payload version or checksum are wrong"),
    ]);
    // Another server, after its start.
    let mut fresh = Desk::new();
    fresh.hub.restore_functions(&dump).unwrap();
    fresh.expect(&[("FCALL count 0", ":1")]);
    assert!(fresh.hub.restore_functions(b"x").is_err());
}

#[test]
fn upstash_runs_unflagged_functions_read_only() {
    let mut desk = Desk::new();
    load(&mut desk, LIBRARY);
    let mut run = |line: &str| {
        let command = crate::Command::new(line.split(' '));
        let spec = dispatch::resolve(command.args()).unwrap();
        let mut ctx = Ctx::new(&mut desk.keys, desk.now, &mut desk.random, &desk.hub);
        ctx.dialect = Dialect::Upstash;
        shown(&dispatch::run_data(&mut ctx, spec, command.args()))
    };
    assert_eq!(run("FCALL_RO count 0"), ":1");
    assert!(run("FCALL_RO set 1 k v").contains("commands are not allowed from read-only"));
}
