//! Lua programs from a grammar: every decision of it is a byte of the input.

use crate::source::Source;

const NAMES: &[&str] = &["a", "b", "c", "t", "u", "f", "g", "undefined", "_G", "string", "self"];
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "-1",
    "3.5",
    "1e15",
    "0.1",
    "255",
    "2^53",
    "1/3",
    "7",
    "-0",
    "0/0",
    "1/0",
    "-1/0",
    "2147483647",
    "-2147483648",
    "4294967296",
    "1e308",
    "0x7fffffff",
];
const STRINGS: &[&str] = &[
    "''",
    "'a'",
    "'10'",
    "'hello world'",
    "'x=1, y=2'",
    "'0x10'",
    "'%d'",
    "'a\\0b'",
    "[[long]]",
    "'\\255\\254'",
    "('ab'):rep(99)",
    "'return 1'",
    "'n'",
    "'k'",
    "'__index'",
    "'#'",
    "'1e400'",
    "'*a'",
];
const FIELDS: &[&str] = &["x", "y", "name", "n", "__index", "__newindex", "__call", "__mode", "__tostring"];
const BINARY: &[&str] = &["+", "-", "*", "/", "%", "^", "..", "==", "~=", "<", "<=", ">", ">=", "and", "or"];
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
    "'%b()'",
    "'[%a-z]'",
    "'(.-)(.*)'",
    "'%'",
    "'['",
    "'(()'",
    "'[]]'",
    "'.-.-.-x'",
    "'a?a?a?'",
];
const FORMATS: &[&str] = &[
    "'%d'",
    "'%s'",
    "'%5.2f'",
    "'%g'",
    "'%x'",
    "'%q'",
    "'%-8s|'",
    "'%+.3e'",
    "'%05d'",
    "'%c'",
    "'%99.99f'",
    "'%i%o%u'",
    "'%X%E%G'",
    "'%.0s'",
    "'%%'",
    "'%100s'",
    "'%'",
    "'% d%#x'",
    "'%.14g'",
];
const FUNCTIONS: &[&str] = &[
    "assert",
    "collectgarbage",
    "coroutine.create",
    "coroutine.resume",
    "coroutine.running",
    "coroutine.status",
    "coroutine.wrap",
    "coroutine.yield",
    "error",
    "getmetatable",
    "getfenv",
    "ipairs",
    "load",
    "loadstring",
    "math.abs",
    "math.floor",
    "math.fmod",
    "math.frexp",
    "math.ldexp",
    "math.log",
    "math.max",
    "math.min",
    "math.modf",
    "math.pow",
    "math.random",
    "math.randomseed",
    "math.sqrt",
    "math.tan",
    "next",
    "pairs",
    "pcall",
    "rawequal",
    "rawget",
    "rawset",
    "select",
    "setfenv",
    "setmetatable",
    "string.byte",
    "string.char",
    "string.find",
    "string.format",
    "string.gmatch",
    "string.gsub",
    "string.len",
    "string.lower",
    "string.match",
    "string.rep",
    "string.reverse",
    "string.sub",
    "string.upper",
    "table.concat",
    "table.foreach",
    "table.foreachi",
    "table.getn",
    "table.insert",
    "table.maxn",
    "table.remove",
    "table.sort",
    "tonumber",
    "tostring",
    "type",
    "unpack",
    "xpcall",
    "check",
    "dofile",
    "string.dump",
    "f",
    "g",
];

/// What every program begins with.
const BEGIN: &str = "local a, b, c, t, u = 1, 'two', 3.5, {x = 1, y = 'why', 10, 20}, {}
local function f(p, q) check() return q, p end
local g = function(...) return ... end
";

/// A program of the decisions in `source`.
pub fn program(source: &mut Source<'_>) -> String {
    let mut program = Program { source, text: BEGIN.to_owned() };
    while !program.source.is_empty() && program.text.len() < 16 * 1024 {
        program.statement(3);
    }
    program.text.push_str("return a, b, c, t, u, f, g\n");
    program.text
}

struct Program<'a, 'b> {
    source: &'a mut Source<'b>,
    text: String,
}

impl Program<'_, '_> {
    fn word(&mut self, of: &[&'static str]) -> &'static str {
        self.source.one_of(of)
    }

    fn exprs(&mut self, depth: usize) -> String {
        let exprs: Vec<_> = (0..self.source.below(4)).map(|_| self.expr(depth)).collect();
        exprs.join(", ")
    }

    fn expr(&mut self, depth: usize) -> String {
        let kind = if depth == 0 { self.source.below(6) } else { self.source.below(20) };
        let d = depth.saturating_sub(1);
        match kind {
            0 => self.word(NAMES).into(),
            1 => self.word(NUMBERS).into(),
            2 => self.word(STRINGS).into(),
            3 => self.word(&["nil", "true", "false", "{}"]).into(),
            4 => format!("t.{}", self.word(FIELDS)),
            5 => self.word(FUNCTIONS).into(),
            6..=8 => format!("({} {} {})", self.expr(d), self.word(BINARY), self.expr(d)),
            9 => format!("{}({})", self.word(&["-", "not ", "#"]), self.expr(d)),
            10 => format!(
                "{{{}, {} = {}, [{}] = {}}}",
                self.expr(d),
                self.word(FIELDS),
                self.expr(d),
                self.expr(d),
                self.expr(d)
            ),
            11 => format!("({})[{}]", self.expr(d), self.expr(d)),
            12 => format!("(function(...) return {}, ... end)({})", self.expr(d), self.exprs(d)),
            13 => format!(
                "string.{}({}, {}, {})",
                self.word(&["find", "match", "gsub", "gmatch"]),
                self.expr(d),
                self.word(PATTERNS),
                self.expr(d)
            ),
            14 => format!("string.format({}, {})", self.word(FORMATS), self.exprs(d)),
            15 => format!("select('#', pcall({}, {}))", self.word(FUNCTIONS), self.expr(d)),
            16 => format!(
                "({}):{}({})",
                self.expr(d),
                self.word(&["rep", "sub", "byte", "x", "gsub"]),
                self.exprs(d)
            ),
            _ => format!("{}({})", self.word(FUNCTIONS), self.exprs(d)),
        }
    }

    fn line(&mut self, words: &str) {
        self.text.push_str(words);
        self.text.push('\n');
    }

    fn block(&mut self, depth: usize) {
        for _ in 0..=self.source.below(3) {
            self.statement(depth);
        }
    }

    fn statement(&mut self, depth: usize) {
        let kind = if depth == 0 { self.source.below(5) } else { self.source.below(15) };
        let d = depth.saturating_sub(1);
        let name = self.word(&NAMES[..7]);
        let line = match kind {
            0 => format!("local {name}, c = {}", self.exprs(2)),
            1 => format!("{name} = {}", self.expr(3)),
            2 => format!("t.{}, {name} = {}", self.word(FIELDS), self.exprs(2)),
            3 => format!("pcall(function(...) {name} = {} end, a, b)", self.expr(3)),
            4 => format!("pcall(function() t[{}] = {} end)", self.expr(2), self.expr(2)),
            5 => return self.within(&|e| format!("if {e} then"), "end", 3, d),
            6 => {
                return self.within(
                    &|e| format!("for i = 1, 5, {e} do a = i"),
                    "if i > 9 then break end end",
                    1,
                    d,
                );
            }
            7 => return self.within(&|e| format!("for k, v in pairs({e}) do b, c = k, v"), "end", 2, d),
            8 => return self.within(&|e| format!("repeat local n = {e}"), "until n or true", 2, d),
            9 => {
                return self.within(
                    &|e| format!("local function {name}(a, ...) if a == {e} then return ... end"),
                    "return t end",
                    1,
                    d,
                );
            }
            10 => return self.within(&|e| format!("while {e} do check()"), "break end", 2, d),
            11 => {
                return self.within(&|e| format!("pcall(function(...) local u = {e}"), "return u end)", 2, d);
            }
            12 => {
                let (meta, value) = (
                    self.word(&[
                        "__index",
                        "__newindex",
                        "__add",
                        "__concat",
                        "__eq",
                        "__lt",
                        "__call",
                        "__len",
                        "__unm",
                        "__tostring",
                        "__metatable",
                        "__mode",
                        "__gc",
                    ]),
                    self.expr(2),
                );
                format!(
                    "{name} = setmetatable({{x = {value}}}, {{{meta} = function(...) check() return {} end}})",
                    self.expr(1)
                )
            }
            13 => {
                return self.within(
                    &|e| format!("do local co = coroutine.wrap(function(...) coroutine.yield({e})"),
                    "end) pcall(co, 1) pcall(co, 2) end",
                    2,
                    d,
                );
            }
            _ => format!(
                "table.sort({{{}, {}, {}}}, function(x, y) return {} end)",
                self.expr(1),
                self.expr(1),
                self.expr(1),
                self.expr(1)
            ),
        };
        self.line(&line);
    }

    /// A block between two lines.
    fn within(&mut self, begin: &dyn Fn(&str) -> String, end: &str, expr_depth: usize, depth: usize) {
        let expr = self.expr(expr_depth);
        self.line(&begin(&expr));
        self.block(depth);
        self.line(end);
    }
}
