//! The pools that arguments are drawn from: few keys, so that commands meet; small numbers, and extreme ones. It touches
//! nothing.
//!
//! Two things are left out on purpose. A time to live that ends during a script: the servers would not lose the key at the
//! same command. And sizes that a server would really make, such as bit 4,294,967,295.

use std::collections::HashMap;

use keystead_testkit::rng::Rng;

use crate::families::scripts;
use crate::script::words;

/// A pool of words: its name, and what is in it, as redis-cli would read it.
type Words = (&'static str, &'static str);

/// Keys by what they mostly hold.
const KEYS: &[Words] = &[
    ("str", "s:1 s:2 s:3"),
    ("hash", "h:1 h:2 h:3"),
    ("list", "l:1 l:2 l:3"),
    ("set", "e:1 e:2 e:3"),
    ("zset", "z:1 z:2 z:3"),
    ("stream", "x:1 x:2"),
    ("bits", "b:1 b:2"),
    ("hll", "p:1 p:2 p:3"),
    ("geo", "g:1 g:2"),
];

/// Pools of plain words.
const WORDS: &[Words] = &[
    // A sorted set whose members all have the score 0, as BYLEX demands. No other pool has it.
    ("lexz", "y:1 y:2"),
    ("f", r#"f1 f2 f3 f4 5 "" "field with spaces""#),
    ("m", r#"m1 m2 m3 m4 m5 1 2 3 -4 50 "" "Ma\xc3\xa9""#),
    (
        "v",
        r#"v1 hello "hello world" "" a "\r\n" "\x00\x01\xff\xfe" 1 2 10 -7 3.5 007 " 5" +5 1e5 nan ohmytext mynewtext"#,
    ),
    ("v", "9223372036854775807 -9223372036854775808 9223372036854775808"),
    (
        "v",
        r#""a value that is longer than sixty-four bytes: no small encoding of Redis can hold it any more""#,
    ),
    ("place", "p1 p2 p3 p4 p5 p6"),
    ("group", "g1 g2 g3"),
    ("consumer", "c1 c2 c3"),
    ("chan", "ch:1 ch:2 ch:3 news"),
    ("glob", r#"* s:* ?:1 [sh]:* [^s]:2 [a-h]* "x\\:1" m? f* ch:* "" [ "\\*" **1 n*s"#),
    ("score", "0 1 2 3 -1 0.5 1.5 -2.25 10 100 1e3 inf -inf 0.1 3.3333333333333335 1e17 123456789012 1e-7"),
    ("badscore", r#"nan abc "" 1e400 " 1" "1 " --1 1e infinity -nan .5 5. +3"#),
    ("min", "-inf 0 (0 1 (1 -1 0.5 (abc (-inf 2 nan"),
    ("max", "+inf inf 3 (3 10 (10 1 (+inf 0 x (1.5"),
    ("lexmin", "- - [m1 (m1 [m2 (m3 + m1 [ ("),
    ("lexmax", "+ + [m5 (m5 [m3 (m2 - x [ ("),
    ("id", "0 1 2-1 3 3-3 5 5-5 8 10-1 20 40-0 0-0 0-1"),
    ("range", "- + 0 1 2-1 5 (5 (2-1 10 (- 20-1 18446744073709551615 40"),
    ("badid", r#"abc 1- -1 "" 1-1-1 99999999999999999999 1-x 0-0 1.5 $x (0"#),
    ("unit", "m km ft mi M yards"),
    ("type", "string list set zset hash stream STRING nothing"),
    ("bittype", "u1 u2 u8 i5 i8 u16 i32 u63 i64 u64 i0 i65 x8 u 8"),
    ("by", "w:* h:*->f1 s:* nosort nothing:* * h:1->f* w:*->"),
    ("get", "# w:* s:* h:*->f1 h:1->* nothing:* nostar"),
    ("bad", r#"abc "" 1.5 -1 0 9223372036854775808 nan " 1" "1 " 0x1 +1 01 NX COUNT"#),
    ("badttl", r#"0 -1 -1000 abc "" 9223372036854775807 -9223372036854775808 9223372036854775 1.5"#),
    ("float", "0 1 -1 0.5 2.25 -3.75 1e10 1e-5 3.0 10.10 0.1 -0.1 3.14159265358979 1e17 -0 5e-324 17.5e3"),
    ("badfloat", r#"inf -inf +inf nan 1e308 -1e308 0x10 1e400 abc "" " 1" "1 " 1e4932 infinity 1..5"#),
    ("lon", "0 13.361389 15.087269 -0.1276 2.3522 179.9 -179.9 -122.4194 181 abc"),
    ("lat", "0 38.115556 37.502669 51.5072 48.8566 85 -85 37.7749 86"),
    ("radius", "0 1 100 500 2000 200000 30000000 0.5 -1 abc"),
    ("timeout", "0.01 0.005 0.002 -1 abc nan 0.01x"),
    ("at", "4000000000 4000000001 4100000000 1 0 -5"),
    ("pat", "4000000000000 4000000000001 4100000000000 1000 0 -5"),
    ("future", "4000000000 4000000001 4100000000"),
    ("pfuture", "4000000000000 4000000000001 4100000000000"),
    ("badbit", r#"-1 4294967296 abc "" 9223372036854775807 #1"#),
    ("badbitoff", r#"-1 4294967296 abc #-1 ## #9223372036854775807 """#),
    ("badoff", r#"-1 536870912 abc 9223372036854775807 """#),
    ("badcount", r#"0 -1 4 abc 9223372036854775807 1 "" 2"#),
    ("weight", "1 2 0 -1 0.5"),
    ("badweight", "inf -inf nan abc"),
    ("extreme", "9223372036854775807 -9223372036854775808 9223372036854775806 -9223372036854775807"),
    ("extreme", "9223372036854775808 -9223372036854775809 4294967296 2147483648 -2147483649"),
    ("extreme", r#"abc "" 1.0 " 1" "1 " +1 01 -0 1e3 99999999999999999999999"#),
    ("lua", scripts::LUA),
    ("luakey", scripts::KEY),
    ("luajson", scripts::JSON),
    ("json", scripts::JSON_TEXTS),
    ("luabytes", scripts::BYTES),
    ("luaprobe", scripts::PROBES),
    ("shebang", scripts::SHEBANGS),
    ("lib", scripts::LIBRARIES),
    ("readlib", scripts::READING_LIBRARY),
    ("badlib", scripts::BAD_LIBRARIES),
    ("dump", scripts::DUMP),
    // `return 1`, and its SHA1.
    ("luaone", r#""return 1""#),
    ("sha", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db E0E1F9FABFC9D4800C877A703B823AC0578FF8DB"),
    ("badsha", r#"e0e1f9fabfc9d4800c877a703b823ac0578ff8dc abc """#),
];

/// What is drawn from, and what was drawn in this group.
pub(crate) struct Pools {
    words: HashMap<&'static str, Vec<Vec<u8>>>,
    bound: HashMap<String, Vec<u8>>,
    /// How many keys or fields the last counted pool gave.
    counted: u64,
    /// The last stream id that was given out: most ids of XADD must grow.
    stream_ms: u64,
}

impl Pools {
    pub(crate) fn new() -> Pools {
        let mut pools: HashMap<_, Vec<Vec<u8>>> = HashMap::new();
        for (name, text) in KEYS.iter().chain(WORDS) {
            // Long pools stand on several lines.
            pools.entry(*name).or_default().extend(words(&text.replace('\n', " ")));
        }
        Pools { words: pools, bound: HashMap::new(), counted: 0, stream_ms: 0 }
    }

    /// Begins a group.
    pub(crate) fn begin(&mut self) {
        self.bound.clear();
    }

    /// Arguments out of this pool. What is `bound` to a name is drawn once.
    pub(crate) fn draw(&mut self, rng: &mut Rng, name: &str, bound: &str) -> Vec<Vec<u8>> {
        if name.is_empty() {
            return vec![
                self.bound.get(bound).unwrap_or_else(|| panic!("{{:{bound}}} was not drawn")).clone(),
            ];
        }
        let drawn = self.fresh(rng, name);
        if !bound.is_empty() {
            self.bound.insert(bound.to_owned(), drawn[0].clone());
        }
        drawn
    }

    fn fresh(&mut self, rng: &mut Rng, name: &str) -> Vec<Vec<u8>> {
        let is_key = KEYS.iter().any(|(pool, _)| *pool == name);
        // Now and then any other key: wrong types.
        if name == "key" || (is_key && rng.below(14) == 0) {
            let (pool, _) = KEYS[rng.below(KEYS.len() as u64) as usize];
            return vec![self.word(rng, pool)];
        }
        match name {
            "nlist" | "nset" | "nzset" | "nf" | "nfv" => self.counted(rng, &name[1..]),
            "weights" => self.weights(rng),
            "m" | "f" if rng.below(12) == 0 => vec![self.one_of_many(rng)],
            // So many that no server keeps them in its small form.
            "flood" => (0..60 + rng.below(200)).map(|_| rng.next_u64().to_string().into_bytes()).collect(),
            "crowd" => self.crowd(rng, |_, _| None),
            "crowdfv" => self.crowd(rng, |pools, rng| Some((1, pools.word(rng, "v")))),
            "crowdsm" => self.crowd(rng, |pools, rng| Some((0, pools.word(rng, "score")))),
            "crowdlex" => self.crowd(rng, |_, _| Some((0, b"0".to_vec()))),
            "blob" => vec![(0..rng.below(60_000)).map(|at| b'a' + (at % 26) as u8).collect()],
            _ if self.words.contains_key(name) => vec![self.word(rng, name)],
            _ => vec![self.number(rng, name)],
        }
    }

    /// A member out of many.
    fn one_of_many(&self, rng: &mut Rng) -> Vec<u8> {
        format!("many:{}", rng.below(400)).into_bytes()
    }

    /// Many members, each with something before (0) or behind it (1).
    fn crowd(
        &self,
        rng: &mut Rng,
        with: impl Fn(&Pools, &mut Rng) -> Option<(usize, Vec<u8>)>,
    ) -> Vec<Vec<u8>> {
        let mut crowd = Vec::new();
        for _ in 0..100 + rng.below(250) {
            let mut one = vec![self.one_of_many(rng)];
            if let Some((place, other)) = with(self, rng) {
                one.insert(place, other);
            }
            crowd.append(&mut one);
        }
        crowd
    }

    fn word(&self, rng: &mut Rng, pool: &str) -> Vec<u8> {
        let words = &self.words[pool];
        words[rng.below(words.len() as u64) as usize].clone()
    }

    fn number(&mut self, rng: &mut Rng, name: &str) -> Vec<u8> {
        let text = match name {
            "num" => small(rng, -5, 30),
            "pos" => small(rng, 0, 6),
            "limit" => small(rng, -1, 5),
            // A count of random members: a large negative one would return so many.
            "rcount" => small(rng, -6, 7),
            "int" if rng.below(4) == 0 => return self.word(rng, "extreme"),
            "int" => small(rng, -20, 20),
            "idx" if rng.below(10) == 0 => return self.word(rng, "extreme"),
            "idx" => small(rng, -6, 7),
            "count" if rng.below(8) == 0 => return self.word(rng, "extreme"),
            "count" => small(rng, -2, 6),
            // Bits, and offsets that are too large for every server.
            "bit" if rng.below(12) == 0 => return self.word(rng, "badbit"),
            "bit" => small(rng, 0, 130),
            "bitoff" if rng.below(12) == 0 => return self.word(rng, "badbitoff"),
            "bitoff" if rng.below(4) == 0 => format!("#{}", rng.below(6)),
            "bitoff" => small(rng, 0, 90),
            "off" if rng.below(10) == 0 => return self.word(rng, "badoff"),
            "off" => small(rng, 0, 20),
            // So many different ones that two of them never mean the same moment.
            "ttl" => (1000 + rng.below(100_000_000)).to_string(),
            "pttl" => (1_000_000 + rng.below(100_000_000_000)).to_string(),
            "newid" => self.new_id(rng),
            _ => panic!("there is no pool {name}"),
        };
        text.into_bytes()
    }

    /// Keys, fields or pairs with their number before them, which is wrong at times.
    fn counted(&mut self, rng: &mut Rng, pool: &str) -> Vec<Vec<u8>> {
        self.counted = 1 + rng.below(3);
        let right = self.counted.to_string().into_bytes();
        let mut drawn = vec![if rng.below(12) == 0 { self.word(rng, "badcount") } else { right }];
        for _ in 0..self.counted {
            match pool {
                "fv" => drawn.extend([self.word(rng, "f"), self.word(rng, "v")]),
                _ => drawn.extend(self.fresh(rng, pool)),
            }
        }
        drawn
    }

    /// Weights for the keys that were counted.
    fn weights(&mut self, rng: &mut Rng) -> Vec<Vec<u8>> {
        let count = if rng.below(12) == 0 { rng.below(4) } else { self.counted };
        let bad = rng.below(12) == 0;
        (0..count).map(|_| self.word(rng, if bad { "badweight" } else { "weight" })).collect()
    }

    /// An id for XADD: mostly one that is larger than all before.
    fn new_id(&mut self, rng: &mut Rng) -> String {
        self.stream_ms += rng.below(3);
        match rng.below(12) {
            0 => format!("{}-*", self.stream_ms),
            1 => self.stream_ms.to_string(),
            2 => rng.below(10).to_string(),
            _ => format!("{}-{}", self.stream_ms, rng.below(6)),
        }
    }
}

fn small(rng: &mut Rng, first: i64, end: i64) -> String {
    (first + rng.below((end - first) as u64) as i64).to_string()
}
