//! What a script cannot access, change, or leave behind.

use super::{eval, expect};
use crate::testing::Desk;

#[test]
fn globals_that_reach_outside_do_not_exist() {
    let mut desk = Desk::new();
    for name in [
        "io", "require", "package", "module", "dofile", "loadfile", "print", "debug", "getfenv", "setfenv",
        "newproxy",
    ] {
        let reply = eval(&mut desk, &format!("return {name}"));
        let words =
            format!("-ERR user_script:1: Script attempted to access nonexistent global variable '{name}'");
        assert!(reply.starts_with(&words), "{reply}");
    }
    expect(
        &mut desk,
        &[
            (
                "local names = {} for name in pairs(os) do names[#names + 1] = name end return names",
                "*1 $5 clock",
            ),
            ("return type(os.clock())", "$6 number"),
            // Bytecode is parsed as text, and rejected.
            ("return type(string.dump)", "$3 nil"),
            ("return type(select(2, loadstring('\\27Lua', 1)))", "$6 string"),
            ("return type(select(2, loadstring('\\27Lua')))", "$6 string"),
            ("return loadstring('return 1 + 1')()", ":2"),
        ],
    );
    assert!(eval(&mut desk, "\x1bLua").contains("unexpected symbol near 'char(27)'"));
}

#[test]
fn nothing_that_scripts_share_can_be_changed() {
    let mut desk = Desk::new();
    for script in [
        "x = 1",
        "_G.x = 1",
        "_G.redis = nil",
        "_G._G = nil",
        "redis.call = nil",
        "string.format = nil",
        "getmetatable('').__index = nil",
        "getmetatable('').__index.upper = nil",
        "getmetatable(_G).__index = nil",
        "rawset(_G, 'x', 1)",
        "rawset(redis, 'call', 1)",
        "rawset(getmetatable(''), '__index', nil)",
        "table.insert(_G, 1)",
        "table.insert(cjson, 'x')",
        "setmetatable(_G, {})",
        "setmetatable(redis, {})",
        "setmetatable(string, nil)",
        "loadstring('x = 1')()",
        "coroutine.wrap(function() x = 1 end)()",
        "KEYS = {}",
        "os.clock = nil",
        "cjson.null = nil",
    ] {
        let reply = eval(&mut desk, script);
        assert!(reply.contains("Attempt to modify a readonly table"), "{script}: {reply}");
    }
    // No table is accessible whose change another script would see.
    expect(
        &mut desk,
        &[
            ("return next(getmetatable('')) and 1", ":1"),
            ("return tostring(getmetatable(redis))", "$3 nil"),
            ("local f, s = pairs(redis) return tostring(rawequal(s, redis))", "$4 true"),
            ("for k, v in next, {} do return k end return 'nothing'", "$7 nothing"),
            ("for k, v in next, os do return k end", "$5 clock"),
            ("return ('x'):upper()", "$1 X"),
            ("return string.format('%s', 1)", "$1 1"),
        ],
    );
}

#[test]
fn a_script_leaves_nothing_for_the_next() {
    let mut desk = Desk::new();
    eval(&mut desk, "local t = getmetatable(_G) t.x = 1");
    eval(&mut desk, "KEYS.x = 1 ARGV.x = 1");
    expect(&mut desk, &[("return {type(KEYS.x), type(ARGV.x)}", "*2 $3 nil $3 nil")]);
    // A coroutine cannot be resumed by another script, as nothing can hold it.
    expect(&mut desk, &[("return coroutine.status(coroutine.create(function() end))", "$9 suspended")]);
}

#[test]
fn a_script_cannot_stop_the_collector() {
    let mut desk = Desk::new();
    expect(
        &mut desk,
        &[
            ("return collectgarbage('stop')", ":0"),
            ("return collectgarbage('setpause', 1000000)", ":200"),
            ("return tostring(collectgarbage('count') > 0)", "$4 true"),
            ("return collectgarbage()", ":0"),
        ],
    );
    let busy = "for i = 1, 200000 do local t = {i, {i}} end return 1";
    assert_eq!(eval(&mut desk, busy), ":1", "garbage is collected all the same");
}
