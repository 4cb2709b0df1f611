//! Scripts that take memory or time outside of Lua instructions, and scripts that would change the state of the next.

use keystead_testkit::server::Server;

use crate::client::Client;
use crate::{assert_unharmed, victim};

/// The processor time that a script with a limit of 200 ms may take in a test build: much less than any of these took without a limit.
const PATIENCE_MS: u64 = 8_000;

/// The processor time that a server has had: unlike time that passes, it is the same on a busy machine.
fn processor_ms(server: &Server) -> u64 {
    const TICK_MS: u64 = 10;
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap());
    ticks.sum::<u64>() * TICK_MS
}

/// The same text is the server's own error about a slot that moves, for which a connection waits.
#[test]
fn an_error_of_a_script_is_its_reply_and_it_runs_one_time() {
    let server = victim(&[]);
    let mut client = Client::connect(&server);
    let script = "redis.call('INCR', 'n') return redis.error_reply('TRYAGAIN The slot is being moved to another node')";
    let reply = client.ask_words(&["EVAL", script, "1", "n"]);
    assert_eq!(reply, "-TRYAGAIN The slot is being moved to another node");
    client.expect(&[("GET n", "1")]);
}

#[test]
fn memory_outside_of_lua_values_counts_for_the_script() {
    let server = victim(&[]);
    let mut client = Client::connect(&server);
    for script in [
        // One string, returned many times.
        "local s = string.rep('x', 10000000) local t = {} for i = 1, 100000 do t[i] = s end return t",
        "local s = string.rep('x', 10000000) local t = {} for i = 1, 100000 do t[i] = {ok = s} end return t",
        "local s = string.rep('x', 10000000) local t = {} for i = 1, 100000 do t[i] = {map = {a = s}} end return t",
        // Tables doubled forty times.
        "local t = {1} for i = 1, 40 do t = {t, t} end return t",
        "local t = {1} for i = 1, 40 do t = {map = {a = t, b = t}} end return t",
        "local s = string.rep('x', 10000000) local t = {} for i = 1, 10000 do t[i] = s end return cmsgpack.pack(t)",
        "local s = string.rep('x', 10000000) local t = {} for i = 1, 10000 do t[i] = s end return cjson.encode(t)",
        "local s = string.rep('x', 10000000) local t = {} for i = 1, 7000 do t[i] = s end return redis.call('RPUSH', 'k', unpack(t))",
        "local s = string.rep('x', 10000000) for i = 1, 400 do redis.call('PUBLISH', 'c', s) end",
        "local s = string.rep('x', 10000000) local t = {} for i = 1, 10000 do t[i] = s end return table.concat(t)",
        "local s = string.rep('x', 10000000) return (string.rep('y', 10000):gsub('y', s))",
        "local s = string.rep('x', 10000000) return string.format(string.rep('%s', 100), unpack((function() local t = {} for i = 1, 100 do t[i] = s end return t end)()))",
        "local cos = {} for i = 1, 1000000 do cos[i] = coroutine.create(function() local function f(n) if n > 0 then return 1 + f(n - 1) end coroutine.yield() end f(15000) end) coroutine.resume(cos[i]) end",
        "local t = {} for i = 1, 1e9 do t[i] = function() return i end end",
        "local t = {} for i = 1, 1e9 do t[i] = loadstring('return ' .. i) end",
        "local t = {} while true do t[#t + 1] = cjson.new() end",
    ] {
        let reply = client.ask_words(&["EVAL", script, "0"]);
        assert!(
            reply.starts_with("-OOM Error running script"),
            "{script}: {}",
            &reply[..reply.len().min(200)]
        );
        assert_unharmed(&server);
    }
    // A log line that is too long is truncated, not an error.
    let log =
        "local s = string.rep('x', 20000000) for i = 1, 400 do redis.log(redis.LOG_NOTICE, s) end return 1";
    assert_eq!(client.ask_words(&["EVAL", log, "0"]), ":1");
    assert!(server.logs().len() < 1_000_000);
    assert_unharmed(&server);
}

#[test]
fn time_outside_of_lua_instructions_counts_for_the_script() {
    let server = victim(&[]);
    let mut client = Client::connect(&server);
    client.expect(&[("CONFIG SET busy-reply-threshold 200", "+OK")]);
    for script in [
        "local s, p = string.rep('a', 20000000), string.rep('a', 10000000) .. 'b' while true do s:find(p, 1, true) end",
        "return string.find(string.rep('a', 20000000), string.rep('a?', 190) .. 'b')",
        "return loadstring('return ' .. string.rep('a or ', 600000) .. 'a') and redis.sha1hex(string.rep('x', 50000000)) and (function() while true do end end)()",
        "local t = {1} for i = 1, 15 do t = {t, t, t, t} end return cmsgpack.pack(t)",
        "local t = {1} for i = 1, 40 do t = {t, t} end return cjson.encode(t)",
        "local t = {} t[1e9] = 1 for i = 1, 1000000 do t[i .. 'x'] = i end while true do table.maxn(t) end",
        "local s = string.rep('1', 20000000) while true do tonumber(s) end",
        "local s = string.rep('x', 20000000) while true do redis.sha1hex(s) end",
        "local t = {} for i = 1, 100000 do t[i] = i end while true do next(t, 99999) for k in pairs(t) do end end",
        "return table.concat({}, '', -2000000000, -1)",
        "local t = setmetatable({}, {}) for i = 1, 2000000000 do table.insert(t, -2000000000, 1) end",
        "local t = {} for i = 1, 200000 do t[i] = 200000 - i end while true do table.sort(t) end",
        "local s = string.rep('x', 1000000) while true do local t = {s:byte(1, 7000)} end",
        "while true do string.format('%99.99f', 1e308) end",
        "local s = string.rep('[', 900) while true do pcall(cjson.decode, s) end",
        // Tables that are mostly nil, that are full, whose end is far away; a heap that is nearly full.
        "local t = {} for i = 1, 1000000 do t[i] = 1 end for i = 1, 999999 do t[i] = nil end while true do next(t) end",
        "local t = {} for i = 1, 262144 do t['k' .. i] = 1 end local i = 0 while true do i = i + 1 t['k' .. i] = nil t['n' .. i] = 1 end",
        "local t = {} for i = 1, 30 do t[2 ^ i] = 1 end for i = 1, 500000 do t[i] = 1 end while true do local n = #t end",
        "local t = {} for i = 1, 600000 do t[i] = 'x' .. i end while true do local s = 'y' .. #t .. math.random() end",
    ] {
        let before_ms = processor_ms(&server);
        let reply = client.ask_words(&["EVAL", script, "0"]);
        let took_ms = processor_ms(&server) - before_ms;
        let stopped = reply.contains("took longer than 200 ms")
            || reply.starts_with("-OOM")
            || reply.starts_with("-ERR");
        assert!(
            stopped && took_ms < PATIENCE_MS,
            "{script}: {took_ms} ms, {}",
            &reply[..reply.len().min(200)]
        );
        assert_unharmed(&server);
    }
}

#[test]
fn compiling_a_large_text_is_linear_and_stopped_in_time() {
    let server = victim(&[]);
    let mut client = Client::connect(&server);
    client.expect(&[("CONFIG SET busy-reply-threshold 2000", "+OK")]);
    for text in [
        "return ".to_owned() + &"a or ".repeat(120_000) + "1",
        "return ".to_owned() + &"1 and ".repeat(120_000) + "1",
        "return ".to_owned() + &"not ".repeat(180) + "1",
        "return 1".to_owned() + &" + 1".repeat(150_000),
        "local x = ".to_owned() + &"{}, ".repeat(100) + "1 " + &"x = x ".repeat(100_000),
        "if x then ".to_owned() + &"elseif x then ".repeat(50_000) + "end",
        "local t = {".to_owned() + &"1, ".repeat(200_000) + "}",
        "x = 1 ".repeat(100_000) + &"-- ".repeat(1_000_000),
    ] {
        let before_ms = processor_ms(&server);
        client.ask_words(&["SCRIPT", "LOAD", &text]);
        assert!(processor_ms(&server) - before_ms < PATIENCE_MS, "{}", &text[..30]);
    }
    assert_unharmed(&server);
}

#[test]
fn every_run_starts_from_the_same_state() {
    let server = victim(&[]);
    let mut client = Client::connect(&server);
    let mut eval = |script: &str| client.ask_words(&["EVAL", script, "0"]);
    let encode = "return cjson.encode({0.123456789})";
    let before = eval(encode);
    for script in [
        "cjson.encode_number_precision(1)",
        "cjson.encode_invalid_numbers(true)",
        "cjson.encode_sparse_array(true)",
        "cjson.encode_max_depth(1)",
        "cjson.decode_max_depth(1)",
        "cjson.decode_invalid_numbers(false)",
        "math.randomseed(7) math.random()",
        "redis.setresp(3)",
        "collectgarbage('stop')",
    ] {
        eval(script);
    }
    assert_eq!(eval(encode), before);
    assert_eq!(eval("return cjson.encode({{{1}}})"), "[[[1]]]");
    assert_eq!(eval("return tostring(pcall(cjson.encode, {1/0}))"), "false");
    assert_eq!(eval("return type(redis.call('GET', 'none'))"), "boolean");
    let numbers = "return {math.random(1000000), math.random(1000000)}";
    let first = eval(numbers);
    assert_eq!(eval(numbers), first, "the random numbers of a run do not depend on those before");
    assert_eq!(eval("return tostring(KEYS.x)"), "nil");
    eval("KEYS.x = 1 ARGV.x = 1");
    assert_eq!(eval("return tostring(KEYS.x) .. tostring(ARGV.x)"), "nilnil");
    // Also of a function: what its library keeps in a variable is as it was loaded.
    let library = "#!lua name=l\nlocal n = 0 local t = {}\nredis.register_function('f', function() n = n + 1 t[#t + 1] = n return {n, #t} end)";
    client.ask_words(&["FUNCTION", "LOAD", library]);
    client.expect(&[("FCALL f 0", "[:1 :1]"), ("FCALL f 0", "[:1 :1]")]);
}
