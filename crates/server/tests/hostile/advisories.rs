//! Every published Redis advisory about Lua, each with its attack, or with the reason why there is none to try.
//!
//! Scripts run on an interpreter in safe Rust (crates/lua): what was a write out of bounds or a use after free there can only be a
//! wrong reply or an error here. The attacks are tried nevertheless, because a wrong reply is also a defect.
//!
//! Without a test:
//! - CVE-2021-32672, a read out of bounds in the protocol of the Lua debugger: there is no debugger (`SCRIPT DEBUG YES` is an error).
//! - CVE-2022-24736, a null pointer when a crafted script is loaded: there are no null pointers; scripts of random bytes and from
//!   a grammar are fuzzed (fuzz/).
//! - CVE-2019-6706, CVE-2020-15888, -15889, -15945, -24342, -24369, -24370 and -24371, CVE-2021-44647, CVE-2022-28805 and -33099, memory
//!   errors of the interpreter: of Lua 5.2 and later, and nothing of it is used here.
//! - CVE-2026-23631, scripts that go on while a replica takes over its master's data: there are no replicas.

use keystead_testkit::server::Server;

use crate::client::Client;
use crate::{assert_unharmed, victim};

/// Runs scripts, none of which may harm the server, and returns their replies.
#[track_caller]
fn attack(server: &Server, scripts: &[&str]) -> Vec<String> {
    let mut client = Client::connect(server);
    let replies = scripts
        .iter()
        .map(|script| {
            let reply = client.ask_words(&["EVAL", script, "0"]);
            assert_unharmed(server);
            reply
        })
        .collect();
    let read_only: Vec<_> =
        scripts.iter().map(|script| client.ask_words(&["EVAL_RO", script, "0"])).collect();
    assert_unharmed(server);
    drop(read_only);
    replies
}

#[track_caller]
fn all_contain(replies: &[String], words: &str) {
    for reply in replies {
        assert!(reply.contains(words), "{reply}");
    }
}

#[test]
fn cve_2015_4335_bytecode_is_not_loaded_by_any_name() {
    let server = victim(&[]);
    let mut client = Client::connect(&server);
    let no_dump =
        client.ask_words(&["EVAL", "return loadstring(string.dump(function() return 42 end),1)()", "0"]);
    assert!(no_dump.contains("attempt to call field 'dump' (a nil value)"), "{no_dump}");
    let header = "'\\27Lua\\81\\0\\1\\4\\8\\4\\8\\0'";
    for name in ["", ", 1", ", 'x'", ", '=x'", ", '@x'", ", nil", ", 1.5", ", ''"] {
        let script = format!("return select(2, loadstring({header}{name}))");
        let reply = client.ask_words(&["EVAL", &script, "0"]);
        assert!(reply.contains("unexpected symbol near") && reply.contains("char(27)"), "{script}: {reply}");
    }
    let in_pieces = format!(
        "local parts = {{'\\27', 'Lua'}} local i = 0 return select(2, load(function() i = i + 1 return parts[i] end, 5)) .. {header}"
    );
    assert!(client.ask_words(&["EVAL", &in_pieces, "0"]).contains("char(27)"));
    assert!(client.ask_words(&["EVAL", "\x1bLua", "0"]).contains("unexpected symbol near 'char(27)'"));
    for name in ["dofile", "loadfile", "require", "package"] {
        let reply = client.ask_words(&["EVAL", &format!("return {name}"), "0"]);
        assert!(reply.contains("nonexistent global variable"), "{reply}");
    }
    assert_unharmed(&server);
}

#[test]
fn cve_2015_8080_and_2018_11219_and_2020_14147_sizes_of_struct_do_not_overflow() {
    let server = victim(&[]);
    let replies = attack(
        &server,
        &[
            "return struct.pack('i2147483648', 1)",
            "return struct.unpack('i99999999999999999999', '1234')",
            "return struct.size('!2147483648i')",
            "return struct.pack('>I2147483647', 10)",
            "return struct.unpack('c2147483647', 'x')",
            "return struct.unpack('c0', 'x')",
            "return struct.unpack('i4', 'xxxx', 2147483647)",
            "return struct.unpack('i4', 'xxxx', -1)",
            "return struct.unpack('i4', 'xxxx', -9223372036854775808)",
            "return struct.unpack('Bc0', '\\255x')",
        ],
    );
    for reply in replies {
        assert!(reply.starts_with("-ERR"), "{reply}");
    }
}

#[test]
fn cve_2018_11218_and_2022_24834_cmsgpack_and_cjson_stay_within_their_buffers() {
    let server = victim(&[]);
    let replies = attack(
        &server,
        &[
            "local t = {} for i = 1, 1000 do t = {t} end return cmsgpack.unpack(cmsgpack.pack(t)) and 1",
            "return cmsgpack.unpack(string.rep('\\145', 200000))",
            "return cmsgpack.unpack('\\221\\255\\255\\255\\255')",
            "return cmsgpack.unpack('\\219\\255\\255\\255\\255x')",
            "return cmsgpack.unpack_limit('\\1', 2147483648, 2147483648)",
            "return cmsgpack.unpack_one('\\1', -1)",
            "return cjson.decode(string.rep('[', 200000))",
            "local t = {} for i = 1, 2000 do t = {t} end return cjson.encode(t)",
            "return #cjson.encode(string.rep('\\1', 5000000))",
            "return cjson.encode({[2147483648] = 1})",
            "return cjson.encode({[9007199254740992] = 1})",
        ],
    );
    assert_eq!(replies[0], ":1");
    assert_eq!(replies[8], ":30000002");
    for (at, reply) in replies.iter().enumerate().filter(|(at, _)| ![0, 8, 9, 10].contains(at)) {
        assert!(reply.starts_with("-ERR"), "{at}: {reply}");
    }
}

#[test]
fn cve_2021_32626_and_2021_43519_many_values_and_coroutines_do_not_overflow_the_stack() {
    let server = victim(&[]);
    let replies = attack(
        &server,
        &[
            "local t = {} for i = 1, 1000000 do t[i] = i end return redis.call('RPUSH', 'l', unpack(t))",
            "local t = {} for i = 1, 1000000 do t[i] = i end return select('#', unpack(t))",
            "return string.byte(string.rep('x', 1000000), 1, -1)",
            "return cmsgpack.unpack(string.rep('\\1', 1000000))",
            "local function f() return 1 + f() end return f()",
            "local function f(...) return f(1, ...) end return f()",
            "local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k] end return t.x",
            "local function f(n) return (string.gsub('x', 'x', function() return f(n + 1) end)) end return f(0)",
            "local co = coroutine.wrap(function() local function f() return coroutine.wrap(f)() end return f() end) return co()",
        ],
    );
    for (at, reply) in replies.iter().enumerate() {
        assert!(reply.starts_with("-ERR") || reply.starts_with("-OOM"), "{at}: {reply}");
    }
    let deep = "local t = {} local top = t for i = 1, 100000 do t[1] = {} t = t[1] end return top";
    let mut client = Client::connect(&server);
    assert!(client.ask_words(&["EVAL", deep, "0"]).contains("reached lua stack limit"));
}

#[test]
fn cve_2022_0543_and_2022_24735_and_2025_46818_nothing_that_scripts_share_can_be_changed() {
    let server = victim(&[]);
    let replies = attack(
        &server,
        &[
            "getmetatable('').__index = function() return 'mine' end",
            "getmetatable('').__add = function() return 'mine' end",
            "rawset(getmetatable(''), '__concat', 1)",
            "setmetatable(getmetatable(''), {})",
            "string.format = 1",
            "redis.call = 1",
            "_G.redis = {}",
            "rawset(_G, 'x', 1)",
            "getmetatable(_G).__index = nil",
            "cjson.encode = 1",
            "table.insert(cmsgpack, 1)",
            "table.remove(KEYS) KEYS = {}",
            "setmetatable(_G, {})",
        ],
    );
    all_contain(&replies, "Attempt to modify a readonly table");
    let replies = attack(
        &server,
        &["return package.loadlib('x', 'y')", "return io.popen('id')", "return os.execute('id')"],
    );
    assert!(replies[0].contains("nonexistent global variable 'package'"), "{}", replies[0]);
    assert!(replies[1].contains("nonexistent global variable 'io'"), "{}", replies[1]);
    assert!(replies[2].contains("attempt to call field 'execute'"), "{}", replies[2]);
    let none = ["nil", "true", "1", "print and 1", "function() end", "coroutine.create(function() end)"];
    for value in &none[..3] {
        let script = format!("return tostring(getmetatable({value}))");
        assert_eq!(attack(&server, &[&script]), ["nil"]);
    }
}

#[test]
fn cve_2024_31449_tohex_takes_any_count() {
    let server = victim(&[]);
    let replies = attack(
        &server,
        &[
            "return bit.tohex(65535, -2147483648)",
            "return bit.tohex(65535, 2147483647)",
            "return bit.tohex(65535, 0/0)",
            "return bit.tohex(65535, 1e300)",
            "return bit.tohex(65535, 0)",
        ],
    );
    assert_eq!(replies[..2], ["0000FFFF", "0000ffff"]);
    assert_eq!(replies[4], "''");
}

#[test]
fn cve_2024_46981_the_collector_takes_nothing_that_is_in_use() {
    let server = victim(&[]);
    let replies = attack(
        &server,
        &[
            // Values are in registers, upvalues, coroutines and pending calls while everything else is collected.
            "local keep = {} for i = 1, 2000 do keep[i] = {tostring(i) .. 'x'} end
             for round = 1, 50 do local junk = {} for i = 1, 5000 do junk[i] = {i .. 'junk'} end collectgarbage() end
             for i = 1, 2000 do if keep[i][1] ~= i .. 'x' then return 'lost ' .. i end end return 'all there'",
            "local function maker(v) return function() return v end end
             local fs = {} for i = 1, 1000 do fs[i] = maker('v' .. i) end
             for i = 1, 300000 do local t = {i} end
             for i = 1, 1000 do if fs[i]() ~= 'v' .. i then return 'lost ' .. i end end return 'all there'",
            "local cos = {} for i = 1, 200 do cos[i] = coroutine.wrap(function() local s = 'c' .. i while true do coroutine.yield(s) end end) end
             for round = 1, 20 do for i = 1, 200 do if cos[i]() ~= 'c' .. i then return 'lost' end end for i = 1, 5000 do local t = {i .. 'x'} end end
             return 'all there'",
            "local t = {} for i = 1, 3000 do t[i] = {k = tostring((i * 7919) % 3000)} end
             table.sort(t, function(a, b) local junk = {} for i = 1, 20 do junk[i] = a.k .. b.k .. i end return tonumber(a.k) < tonumber(b.k) end)
             for i = 2, 3000 do if tonumber(t[i-1].k) > tonumber(t[i].k) then return 'unsorted' end end return 'all there'",
            "local s = string.rep('word ', 3000)
             local n = 0 local r = s:gsub('%a+', function(w) local junk = {} for i = 1, 20 do junk[i] = w .. n .. i end n = n + 1 return w .. n end)
             return (r:sub(-9) == 'word3000 ') and 'all there' or r:sub(-20)",
        ],
    );
    assert_eq!(replies, ["all there"; 5]);
}

#[test]
fn cve_2025_46817_unpack_counts_in_more_than_32_bits() {
    let server = victim(&[]);
    let replies = attack(
        &server,
        &[
            "return unpack({}, 0, 2147483647)",
            "return unpack({}, -2147483648, 2147483647)",
            "return {unpack({1}, 0, 2147483647)}",
            "return unpack({}, -9007199254740992, 9007199254740992)",
            "return unpack({}, 1, 7999)",
            "return select('#', table.concat({}, ',', -2147483648, -2147483647))",
        ],
    );
    all_contain(&replies[..3], "too many results to unpack");
}

#[test]
fn cve_2025_46819_long_brackets_end_with_the_text() {
    let server = victim(&[]);
    let levels = "=".repeat(100_000);
    for script in [
        format!("return [{levels}[x"),
        format!("return [{levels}"),
        format!("--[{levels}"),
        format!("return [{levels}[x]{levels}"),
        format!("return #[{levels}[x]{levels}]"),
        "return [[".into(),
        "return '\\".into(),
        "return '\\9".into(),
        "--".into(),
        "[".into(),
    ] {
        let reply = &attack(&server, &[&script])[0];
        assert!(reply.starts_with("-ERR") || reply == ":1" || reply == "$-1", "{reply}");
    }
}

#[test]
fn cve_2025_49844_a_chunk_keeps_its_name_while_it_is_compiled() {
    let server = victim(&[]);
    let replies = attack(
        &server,
        &[
            "local big = {} for i = 1, 50 do
               local name = '@' .. string.rep('n', 1000) .. i
               local text = 'local x = 1 ' .. string.rep('do local function f() return \"' .. i .. '\" end end ', 500) .. ' error(x)'
               local f = loadstring(text, name) collectgarbage()
               local ok, e = pcall(f) if not string.find(e, '...', 1, true) then return e end
             end return 'named'",
            "local e = select(2, loadstring(string.rep('x = ', 20000), string.rep('=', 5000))) collectgarbage() return #e",
        ],
    );
    assert_eq!(replies[0], "named");
    assert!(replies[1].starts_with(':'), "{}", replies[1]);
}

/// A script must not be able to write bytes of the protocol into its reply: what follows would be read as the next reply.
#[test]
fn cve_2025_67733_a_line_break_in_a_reply_does_not_end_it() {
    let server = victim(&[]);
    let injected = "a\\r\\n$3\\r\\nfoo\\r\\n+b\\n:1\\r";
    for mut client in [Client::connect(&server), Client::connect_3(&server)] {
        for script in [
            format!("return redis.error_reply('ERR {injected}')"),
            format!("return {{err = 'ERR {injected}'}}"),
            format!("return redis.status_reply('{injected}')"),
            format!("return {{ok = '{injected}'}}"),
            format!("error('{injected}')"),
            format!("error({{err = '{injected}'}})"),
            format!("return redis.call('{injected}')"),
            format!("return redis.pcall('SET', '{injected}')"),
            format!("return {{big_number = '{injected}'}}"),
            format!("return {{double = '{injected}'}}"),
            format!("return {{verbatim_string = {{format = '{injected}', string = '{injected}'}}}}"),
            format!("return loadstring('{injected}')()"),
            format!("redis.setresp(3) return {{{{ok = '{injected}'}}, {{err = '{injected}'}}}}"),
        ] {
            client.ask_words(&["EVAL", &script, "0"]);
            assert_eq!(client.ask("ECHO next"), "next", "{script}");
        }
        client.ask_words(&["FUNCTION", "LOAD", "#!lua name=a\r\n+b\n"]);
        client.ask_words(&["EVAL", "#!lua flags=a\r+b\r\n", "0"]);
        client.ask_words(&["FCALL", "a\r\n+b", "0"]);
        client.ask_words(&["SCRIPT", "a\r\n+b"]);
        assert_eq!(client.ask("ECHO next"), "next");
    }
}

#[test]
fn cve_2014_5461_missing_arguments_of_a_vararg_function_have_their_space() {
    let server = victim(&[]);
    let parameters: Vec<_> = (0..100).map(|n| format!("p{n}")).collect();
    let script = format!(
        "local function f({}, ...) return select('#', ...), p99 end
         local co = coroutine.wrap(function() return f() end)
         local n, p = co() return {{n, tostring(p), (f(unpack({{1, 2, 3}})))}}",
        parameters.join(", ")
    );
    assert_eq!(attack(&server, &[&script]), ["[:0 nil :0]"]);
}
