//! Random programs must return the same results as on Lua 5.1. `KEYSTEAD_OPS` is their number, `KEYSTEAD_SEED` the first seed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod machines;

use machines::{ours, theirs};

/// A random number generator: the next number below a bound.
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn one_of<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u64) as usize]
    }
}

const NAMES: &[&str] = &["a", "b", "c", "t", "u", "f", "g", "undefined"];
const NUMBERS: &[&str] = &["0", "1", "2", "-1", "3.5", "1e15", "0.1", "255", "2^53", "1/3", "7"];
const STRINGS: &[&str] =
    &["''", "'a'", "'10'", "'hello world'", "'x=1, y=2'", "'0x10'", "'%d'", "'a\\0b'", "[[long]]"];
const FIELDS: &[&str] = &["x", "y", "name", "n"];
const BINARY: &[&str] = &[
    "+", "-", "*", "/", "%", "^", "..", "==", "~=", "<", "<=", ">", ">=", "and", "or", "..", "+", "and", "or",
];
const PATTERNS: &[&str] = &[
    "'%a+'",
    "'(%w+)=(%w+)'",
    "'l'",
    "'.'",
    "'x*'",
    "'^h'",
    "'o$'",
    "'%s'",
    "'()'",
    "'[^a]'",
    "'%d-'",
    "'(.)%1'",
    "'%f[%w]%w+'",
];

struct Program {
    rng: Rng,
    text: String,
}

impl Program {
    fn expr(&mut self, depth: u64) -> String {
        let kind = if depth == 0 { self.rng.below(5) } else { self.rng.below(19) };
        let (d, rng) = (depth.saturating_sub(1), &mut self.rng);
        match kind {
            0 => rng.one_of(NAMES).into(),
            1 => rng.one_of(NUMBERS).into(),
            2 => rng.one_of(STRINGS).into(),
            3 => rng.one_of(&["nil", "true", "false", "..."]).into(),
            4 => format!("t.{}", rng.one_of(FIELDS)),
            5..=8 => {
                let op = rng.one_of(BINARY);
                format!("({} {op} {})", self.expr(d), self.expr(d))
            }
            9 => {
                let op = rng.one_of(&["-", "not ", "#"]);
                format!("{op}({})", self.expr(d))
            }
            10 => format!(
                "{{{}, {} = {}, [{}] = {}}}",
                self.expr(d),
                "x",
                self.expr(d),
                self.expr(d),
                self.expr(d)
            ),
            11 => format!("({})[{}]", self.expr(d), self.expr(d)),
            12 => format!("f({}, {})", self.expr(d), self.expr(d)),
            13 => format!("(function(...) return {}, ... end)({})", self.expr(d), self.expr(d)),
            14 => {
                let pattern = rng.one_of(PATTERNS);
                let function = rng.one_of(&["find", "match", "gsub"]);
                let third = if function == "gsub" { ", '<%0>'" } else { "" };
                format!("string.{function}({}, {pattern}{third})", self.expr(d))
            }
            15 => {
                let format = rng.one_of(&[
                    "'%d'", "'%s'", "'%5.2f'", "'%g'", "'%x'", "'%q'", "'%-8s|'", "'%+.3e'", "'%05d'", "'%c'",
                ]);
                format!("string.format({format}, {})", self.expr(d))
            }
            16 => {
                let function = rng.one_of(&[
                    "tostring",
                    "tonumber",
                    "type",
                    "math.floor",
                    "string.len",
                    "string.rep",
                    "select",
                ]);
                format!("{function}({}, {})", self.expr(d), self.rng.below(4))
            }
            17 => {
                let function =
                    rng.one_of(&["table.concat", "unpack", "next", "table.getn", "table.maxn", "rawget"]);
                format!("{function}({}, {})", self.expr(d), self.expr(d))
            }
            _ => format!("select('#', pcall(f, {}))", self.expr(d)),
        }
    }

    fn block(&mut self, depth: u64, indent: usize) {
        for _ in 0..=self.rng.below(3) {
            self.statement(depth, indent);
        }
    }

    fn line(&mut self, indent: usize, words: &str) {
        self.text.push_str(&"  ".repeat(indent));
        self.text.push_str(words);
        self.text.push('\n');
    }

    fn statement(&mut self, depth: u64, indent: usize) {
        let kind = if depth == 0 { self.rng.below(4) } else { self.rng.below(12) };
        let d = depth.saturating_sub(1);
        let name = self.rng.one_of(NAMES);
        match kind {
            0 => {
                let (a, b) = (self.expr(2), self.expr(2));
                self.line(indent, &format!("local {name}, c = {a}, {b}"));
            }
            1 => {
                let value = self.expr(3);
                self.line(indent, &format!("{name} = {value}"));
            }
            2 => {
                let (field, value) = (self.rng.one_of(FIELDS), self.expr(2));
                self.line(indent, &format!("t.{field}, a = {value}, t.{field}"));
            }
            3 => {
                let value = self.expr(2);
                self.line(indent, &format!("out(pcall(function(...) return {value} end, a, b))"));
            }
            4 => {
                let condition = self.expr(3);
                self.line(indent, &format!("if {condition} then"));
                self.block(d, indent + 1);
                self.line(indent, "else");
                self.block(d, indent + 1);
                self.line(indent, "end");
            }
            5 => {
                let (from, step) = (self.rng.below(5), self.rng.one_of(&["1", "2", "-1", "0.5"]));
                self.line(indent, &format!("for i = {from}, {}, {step} do", 5));
                self.line(indent + 1, "a = i budget()");
                self.block(d, indent + 1);
                self.line(indent, "end");
            }
            6 => {
                let value = self.expr(2);
                self.line(
                    indent,
                    &format!("for k, v in pairs(type({value}) == 'table' and {value} or t) do"),
                );
                self.line(indent + 1, "b = v budget()");
                self.block(d, indent + 1);
                self.line(indent, "end");
            }
            7 => {
                self.line(indent, "local n = 0 repeat n = n + 1 budget()");
                self.block(d, indent + 1);
                let stop = self.expr(1);
                self.line(indent, &format!("until n >= 3 or ({stop})"));
            }
            8 => {
                self.line(indent, &format!("local function {name}(a, ...)"));
                self.line(indent + 1, "budget()");
                self.block(d, indent + 1);
                let value = self.expr(2);
                self.line(indent + 1, &format!("return {value}"));
                self.line(indent, "end");
            }
            9 => {
                self.line(indent, "do local n = 0 while true do n = n + 1 budget() if n > 2 then break end");
                self.block(d, indent + 1);
                self.line(indent, "end end");
            }
            10 => {
                let value = self.expr(2);
                self.line(indent, &format!("t = setmetatable({{x = {value}}}, {{__index = function(t, k) return k end, __add = function(a, b) return 5 end}})"));
            }
            _ => {
                self.line(indent, "local co = coroutine.wrap(function(...)");
                self.block(d, indent + 1);
                let value = self.expr(1);
                self.line(indent + 1, &format!("coroutine.yield({value}) return 1 end)"));
                self.line(indent, "out(pcall(co, 1)) out(pcall(co, 2)) out(pcall(co))");
            }
        }
    }
}

/// The frame of every program: it returns what it prints, and it ends.
const BEGIN: &str = "local steps, outs = 0, {}
local function budget() steps = steps + 1 if steps > 120 then error('budget', 0) end end
local function out(...) for i = 1, select('#', ...) do local v = select(i, ...) outs[#outs + 1] = type(v) == 'function' and 'function' or v end end
local a, b, c, t, u = 1, 'two', 3.5, {x = 1, y = 'why', 10, 20}, {}
local function f(p, q) budget() return q, p end
local g = f
local function program(...)
";
const END: &str = "end
out(pcall(program, 7, 8)) out(a, b, c, t)
for i = 1, #outs do local s = outs[i] if type(s) == 'string' then outs[i] = s:gsub('0x%x+', 'ADDRESS') end end
return outs, steps";

fn program(seed: u64) -> String {
    let mut program = Program { rng: Rng(seed), text: BEGIN.into() };
    program.rng.below(2);
    for _ in 0..4 {
        program.statement(3, 1);
    }
    program.text.push_str(END);
    program.text
}

#[test]
fn random_programs_do_what_they_do_on_lua() {
    let count = std::env::var("KEYSTEAD_OPS").ok().and_then(|text| text.parse().ok()).unwrap_or(3_000);
    let first: u64 = std::env::var("KEYSTEAD_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    for seed in first..first + count {
        let text = program(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let (ours, theirs) = (ours(&text), theirs(&text));
        // The depth of calls through the host, and addresses, differ between the two.
        if theirs.contains("C stack overflow") || theirs.contains(": 0x") {
            continue;
        }
        assert!(ours == theirs, "KEYSTEAD_SEED={seed}\n{text}\n  ours:   {ours}\n  theirs: {theirs}");
    }
}
