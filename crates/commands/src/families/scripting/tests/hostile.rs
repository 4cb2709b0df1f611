//! Scripts that would never end, or use all memory: each is stopped and rolled back, and the next one
//! finds a clean state.

use keystead_core::Stopwatch;

use super::eval;
use crate::errors::Fail;
use crate::reply::Reply;
use crate::testing::Desk;

/// Milliseconds that a script may run in these tests.
const LIMIT_MS: u128 = 100;
/// The tolerance on a busy machine: much less than a call that is never interrupted.
const GRACE_MS: u128 = 30_000;

fn desk() -> Desk {
    let mut desk = Desk::new();
    desk.run(&format!("CONFIG SET busy-reply-threshold {LIMIT_MS}"));
    desk
}

/// Runs a script that must be stopped in time, and returns the error.
fn stopped(desk: &mut Desk, script: &str) -> String {
    let watch = Stopwatch::start();
    let reply = desk.run_args(&["EVAL", script, "0"]);
    let took_ms = watch.elapsed().as_millis();
    assert!(took_ms < LIMIT_MS + GRACE_MS, "{script} took {took_ms} ms");
    let Reply::Error(fail @ Fail::Undone(_)) = &reply else {
        panic!("{script} returned {reply:?}");
    };
    let words = fail.line().into_owned();
    assert_eq!(eval(desk, "return 1"), ":1", "the next script runs");
    words
}

#[test]
fn a_script_that_does_not_end_is_stopped() {
    let mut desk = desk();
    for script in [
        "while true do end",
        "repeat until false",
        "redis.call('SET','k','v') while true do redis.call('GET','k') end",
        // pcall does not catch it.
        "while true do pcall(function() while true do end end) end",
        "while true do pcall(pcall, function() while true do end end) end",
        "while true do xpcall(function() while true do end end, function(e) while true do end end) end",
        "local function f() pcall(f) while true do end end while true do f() end",
        // Nor do coroutines, whose hooks are their own.
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
        "coroutine.wrap(function() while true do end end)()",
        "local function f(n) while true do coroutine.resume(coroutine.create(function() f(n + 1) end)) end end f(0)",
        "local co = coroutine.create(function() while true do coroutine.yield() end end) while true do coroutine.resume(co) end",
        // Nor metamethods.
        "local t = setmetatable({}, {__index = function() while true do end end}) return t.x",
        "local t = setmetatable({}, {__tostring = function() while true do end end}) while true do pcall(tostring, t) end",
        // Nor work within a single call.
        "local t = {} for i = 1, 100000 do t[i] = i % 7 end while true do table.sort(t) end",
        "local t = {} for i = 1, 100000 do t[i] = 'x' end while true do local s = table.concat(t) end",
        "while true do local s = string.rep('x', 1000000) end",
        "while true do string.rep('', 2000000000) end",
        "local s = string.rep('x', 1000000) while true do local n = s:find('y') end",
        "local t = {} while true do table.insert(t, 1, 0) if #t > 20000 then t = {} end end",
        "while true do collectgarbage() end",
        "while true do cjson.encode({1,2,3}) end",
        "while true do cmsgpack.unpack(cmsgpack.pack({1,2,3})) end",
        "while true do loadstring('return 1')() end",
    ] {
        let words = stopped(&mut desk, script);
        assert!(words.starts_with("ERR Error running script "), "{script}: {words}");
        assert!(words.contains("Script killed by user with SCRIPT KILL"), "{script}: {words}");
    }
}

#[test]
fn a_script_that_takes_all_memory_is_stopped() {
    let mut desk = Desk::new();
    for script in [
        "return string.rep('x', 2000000000)",
        "local s = 'x' while true do s = s .. s end",
        "local t = {} while true do t[#t + 1] = {} end",
        "local t = {} for i = 1, 1e9 do t[i] = i end",
        "local t = {} for i = 1, 40 do t[i] = string.rep('x', 4000000) .. i end return table.concat(t)",
        "local t = {} for i = 1, 1000 do t[i] = string.rep('x', 100000) .. i end return cjson.encode(t)",
        "local s = string.rep('x', 1000000) local t = {} for i = 1, 200 do t[i] = s end return cjson.encode(t)",
        "local s = string.rep('x', 1000000) local t = {} for i = 1, 200 do t[i] = s end return cmsgpack.pack(t)",
        "local a = string.rep('x', 9000000) return struct.pack(string.rep('s', 10), a, a, a, a, a, a, a, a, a, a)",
        "return (string.rep('x', 1000):gsub('x', string.rep('y', 1000000)))",
    ] {
        let words = stopped(&mut desk, script);
        assert!(words.starts_with("OOM Error running script "), "{script}: {words}");
        assert!(words.contains("not enough memory"), "{script}: {words}");
    }
}

#[test]
fn deep_recursion_is_an_error_that_a_script_may_catch() {
    let mut desk = Desk::new();
    for script in [
        "local function f() return 1 + f() end return f()",
        "local function f() local ok = pcall(f) return tostring(ok) end return f()",
        "local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k] end return t.x",
        "local function f(n) return (string.gsub('x', 'x', function() return f(n + 1) end)) end return f(0)",
        "local t = {} t[1] = t return cjson.encode(t)",
        "return cjson.decode(string.rep('[', 100000))",
        "return cmsgpack.unpack(string.rep('\\145', 100000))",
        "return string.find(string.rep('a', 100000), string.rep('a?', 100000))",
        "return string.find('x', string.rep('(', 1000))",
        "return loadstring(string.rep('(', 100000))",
        "return loadstring('return ' .. string.rep('{', 100000))",
        "return unpack({}, 1, 1e8)",
        "return string.byte(string.rep('x', 1e6), 1, -1)",
        "return string.format('%99999d', 1)",
        "return string.format(string.rep('%s', 300), 1)",
    ] {
        let reply = eval(&mut desk, script);
        assert!(
            reply.starts_with("-ERR") || reply.starts_with("$-1") || reply.starts_with('$'),
            "{script}: {reply}"
        );
        assert_eq!(eval(&mut desk, "return 1"), ":1", "{script}");
    }
    // Cyclic values end somewhere.
    let endless = desk.run_args(&["EVAL", "local t = {} t[1] = t return t", "0"]);
    assert!(matches!(endless, Reply::Array(_)));
}

#[test]
fn a_pattern_that_would_take_for_ever_is_stopped() {
    let mut desk = desk();
    let script = "local s = string.rep('a', 3000) return string.find(s, string.rep('a*', 12) .. 'b')";
    stopped(&mut desk, script);
    stopped(&mut desk, "return (string.rep('a', 3000):gsub(string.rep('.-', 12) .. 'b', ''))");
    stopped(&mut desk, "for w in string.rep('a', 3000):gmatch(string.rep('a-', 12) .. 'b') do end");
    stopped(&mut desk, "return string.match(string.rep('(', 100000), string.rep('%b()', 5) .. 'x')");
}

#[test]
fn many_results_of_pcall_fit() {
    let mut desk = desk();
    let deep = eval(&mut desk, "local function f() return pcall(f) end return select('#', f())");
    assert!(deep.starts_with(':'), "{deep}");
    assert_eq!(
        eval(
            &mut desk,
            "local t = {} for i = 1, 7000 do t[i] = i end
             local function f(n) if n == 0 then return unpack(t) end return pcall(f, n - 1) end
             return select('#', f(100))"
        ),
        ":7100"
    );
}
