//! Requests of a size: repeated parts of a row's syntax occur `size` times, texts are `size` bytes long, numbers count to `size`.

use keystead_commands::Spec;
use keystead_testkit::rng::Rng;

use super::scene::KINDS;
use super::syntax::{Part, choices};

/// Arguments of one request. Random choices are the same for every size.
struct Filling<'a> {
    size: usize,
    family: &'a str,
    /// Whether keys are one large value repeatedly, one of large elements, or many small ones.
    keys: u64,
    /// Whether texts are long, or as many as there are.
    long: bool,
    arguments: Vec<Vec<u8>>,
    count: Option<(usize, usize)>,
    /// The arguments so far.
    made: usize,
    /// Whether this is inside a repeated part: nested parts are not repeated.
    within: bool,
}

/// A request for this row.
pub(super) fn make(rng: &mut Rng, spec: &Spec, size: usize) -> Vec<Vec<u8>> {
    let family = family(spec, rng);
    let (keys, long) = (rng.below(3), rng.below(3) == 0);
    let arguments = spec.full_name.split('|').map(|word| word.as_bytes().to_vec()).collect();
    let mut filling = Filling { size, family, keys, long, arguments, count: None, made: 0, within: false };
    filling.one_of(rng, &choices(spec.syntax));
    if let Some((at, count)) = filling.count {
        filling.arguments[at] = count.to_string().into_bytes();
    }
    filling.arguments
}

/// The beginning of a request, for error messages.
pub(super) fn shown(request: &[Vec<u8>]) -> String {
    let words = request.iter().take(12).map(|word| word[..word.len().min(40)].escape_ascii().to_string());
    format!("[{}] of {} words", words.collect::<Vec<_>>().join(" "), request.len())
}

/// The type of value that a command uses.
fn family(spec: &Spec, rng: &mut Rng) -> &'static str {
    let name = spec.full_name;
    match name.as_bytes()[0] {
        _ if name.starts_with("json") => "json",
        _ if name.starts_with("pf") => "hll",
        _ if name.starts_with("geo") => "zset",
        _ if name.starts_with("sort") => ["list", "set", "zset"][rng.below(3) as usize],
        b'h' => "hash",
        b'x' => "stream",
        b'z' => "zset",
        _ if name.starts_with("bz") => "zset",
        b'l' if name != "lcs" => "list",
        b'r' | b'b' if name.contains("pop") || name.contains("push") || name.contains("move") => "list",
        b's' if name.len() > 3 && !name.starts_with("set") && name != "strlen" && name != "substr" => "set",
        _ if name.starts_with("bit") || spec.since == "1.0.0" => "str",
        _ => KINDS[rng.below(KINDS.len() as u64) as usize],
    }
}

impl Filling<'_> {
    fn one_of(&mut self, rng: &mut Rng, choices: &[Vec<Part<'_>>]) {
        let Some(parts) = choices.get(rng.below(choices.len().max(1) as u64) as usize) else { return };
        for part in parts {
            match part {
                Part::Word(word) => self.word(rng, word),
                Part::Group { choices, optional, repeats } => {
                    if *optional && rng.below(if *repeats { 4 } else { 2 }) == 0 {
                        continue;
                    }
                    let times = if *repeats && !self.within { self.size } else { 1 };
                    let (within, seed) = (self.within, rng.next_u64());
                    self.within |= *repeats;
                    for _ in 0..times {
                        // The same choices each time, and the same for every size.
                        self.one_of(&mut Rng::new(seed), choices);
                    }
                    self.within = within;
                }
            }
        }
    }

    fn word(&mut self, rng: &mut Rng, word: &str) {
        if !word.starts_with(|c: char| c.is_ascii_lowercase()) {
            return self.push(word.as_bytes().to_vec(), false);
        }
        let n = self.made % self.size;
        let text = match word {
            "numkeys" | "numfields" => {
                self.count = Some((self.arguments.len(), 0));
                String::new()
            }
            "key" | "key1" | "key2" | "newkey" | "source" | "destination" | "destkey" | "dst" | "src"
            | "sourcekey" => return self.key(n),
            "score" | "longitude" | "latitude" | "weight" => ((n * 7) % 80).to_string(),
            "radius" | "width" | "height" => "20000".to_owned(),
            "min" | "start" if self.family == "stream" || rng.below(2) == 0 => "-".to_owned(),
            "max" | "end" if self.family == "stream" || rng.below(2) == 0 => "+".to_owned(),
            "min" | "start" => "0".to_owned(),
            "max" | "stop" | "end" => self.size.to_string(),
            "id" | "last-id" => {
                [format!("{}-1", n + 1), "0".into(), ">".into(), "*".into()][rng.below(4) as usize].clone()
            }
            "group" | "consumer" => "g0".to_owned(),
            "pattern" if self.long && !self.within => format!("*{}b", "a".repeat(self.size)),
            "pattern" => format!("*{}*", n % 10),
            "path" => ["$", "$..*", "$.a", ".a", "$.a[*]", "$..a"][rng.below(6) as usize].to_owned(),
            "json" => format!("[{}0]", "0,".repeat(if self.within { 1 } else { self.size })),
            "script" => format!("return #ARGV{}", " ".repeat(if self.within { 1 } else { self.size })),
            "function-code" => "#!lua name=x\nredis.register_function('f', function() end)".to_owned(),
            "encoding" => "u8".to_owned(),
            "offset" | "index" | "rank" => n.to_string(),
            "count" if rng.below(4) == 0 => format!("-{}", self.size),
            "count" if rng.below(4) == 0 => "0".to_owned(),
            "count" | "milliseconds" | "seconds" | "len" | "threshold" => self.size.to_string(),
            "unit" => "km".to_owned(),
            "numreplicas" | "timeout" | "cursor" => "0".to_owned(),
            "member" | "value" | "element" | "field" | "pivot" | "message" | "channel" | "name"
            | "string" | "shardchannel" | "arg"
                if self.long && !self.within =>
            {
                "a".repeat(self.size)
            }
            "member" | "element" | "field" | "value" | "channel" | "shardchannel" | "pivot" | "arg"
            | "name" => {
                format!("m{n}")
            }
            _ => (n % 64).to_string(),
        };
        self.push(text.into_bytes(), word == "field");
    }

    fn key(&mut self, n: usize) {
        let family = self.family;
        let key = match self.keys {
            0 => family.to_owned(),
            1 => format!("{family}:long"),
            _ => format!("{family}:{n}"),
        };
        self.push(key.into_bytes(), true);
    }

    fn push(&mut self, argument: Vec<u8>, counted: bool) {
        self.made += 1;
        self.arguments.push(argument);
        if let (Some((_, count)), true) = (&mut self.count, counted) {
            *count += 1;
        }
    }
}
