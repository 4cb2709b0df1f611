//! Random scripts of a family: its templates, spoilt now and then, inside and outside of transactions. It touches nothing.

use keystead_commands::Spec;
use keystead_testkit::rng::Rng;

use crate::families::{BASE, FAMILIES, Family, LARGE, LARGE_STREAM};
use crate::grammar::{ANY, Filled, fill};
use crate::pools::Pools;
use crate::script::{Group, Judges, Script, Step, words};

/// How many steps a script has, roughly. A new script begins with empty servers.
const STEPS: usize = 150;

/// How many groups in a thousand are a scene over several connections, where a family has any.
const SCENES: u64 = 40;

/// Scenes are most of what can be said about messages.
const SCENES_OF_MESSAGES: u64 = 500;

/// How many groups in a thousand make a value large.
const LARGE_VALUES: u64 = 6;

/// How many entries make a stream large: Redis keeps a hundred in a node.
const LARGE_STREAM_LEN: u64 = 230;

/// Invalid values of arguments. No small positive number: it might be a time to live, and end during the script.
const JUNK: &str = r#"abc "" -1 0 9223372036854775807 -9223372036854775808 9223372036854775808 1.5 " 1" nan 100000000000 "a b" ?"#;

/// A script of this family.
pub(crate) fn family(family: &Family, seed: u64) -> Script {
    let mut maker = Maker::new(seed, family.judges);
    let scenes = match family.name {
        "pubsub" => SCENES_OF_MESSAGES,
        _ if family.scenes.is_empty() => 0,
        _ => SCENES,
    };
    while maker.steps < STEPS {
        maker.large(family.name == "streams");
        match maker.rng.below(1000) {
            roll if roll < scenes => maker.scene(family.scenes),
            roll if roll < scenes + 100 => maker.one(BASE),
            roll if roll < scenes + 150 => maker.transaction(family.templates),
            _ => maker.one(family.templates),
        }
    }
    maker.end()
}

/// A script that calls each of these commands with too few and with too many arguments.
pub(crate) fn arity(judges: Judges, rows: impl Iterator<Item = &'static Spec>) -> Script {
    let mut groups = Vec::new();
    for row in rows {
        let name: Vec<Vec<u8>> = row.full_name.split('|').map(|word| word.as_bytes().to_vec()).collect();
        if !row.accepts(name.len()) {
            groups.push(vec![Step::new('a', name.clone())]);
        }
        let many: Vec<Vec<u8>> = name.into_iter().chain((0..20).map(|_| b"x".to_vec())).collect();
        if !row.accepts(many.len()) {
            groups.push(vec![Step::new('a', many)]);
        }
    }
    Script { judges, sharded: false, groups }
}

/// A script of all families that both judges know.
///
/// On several shards it has no command with keys of two shards: all keys of the script have one tag.
pub(crate) fn mixed(seed: u64, sharded: bool) -> Script {
    let mut maker = Maker::new(seed, Judges::Both);
    maker.spoils = !sharded;
    while maker.steps < STEPS {
        let families = FAMILIES.len() as u64;
        let family = &FAMILIES[maker.rng.below(families) as usize];
        if family.judges != Judges::Both {
            continue;
        }
        maker.large(family.name == "streams");
        match maker.rng.below(1000) {
            0..20 if !family.scenes.is_empty() => maker.scene(family.scenes),
            20..120 => maker.one(BASE),
            120..170 => maker.transaction(family.templates),
            _ => maker.one(family.templates),
        }
    }
    let mut script = maker.end();
    if sharded {
        script.sharded = true;
        let tag = format!("{{{}}}", seed % 16).into_bytes();
        for argument in script.groups.iter_mut().flatten().flat_map(|step| &mut step.args) {
            // Keys and patterns of keys are a letter and a colon.
            if matches!(argument[..], [b'a'..=b'z', b':', ..]) {
                argument.splice(0..0, tag.iter().copied());
            }
        }
    }
    script
}

struct Maker {
    rng: Rng,
    pools: Pools,
    judges: Judges,
    groups: Vec<Group>,
    steps: usize,
    /// The connection that is used at present.
    conn: char,
    /// Whether requests are spoilt now and then.
    spoils: bool,
}

impl Maker {
    /// A script that begins with the protocol of each connection, and with keys of all types.
    fn new(seed: u64, judges: Judges) -> Maker {
        let (rng, pools, groups) = (Rng::new(seed), Pools::new(), Vec::new());
        let mut maker = Maker { rng, pools, judges, groups, steps: 0, conn: 'a', spoils: true };
        for conn in ['a', 'b', 'c', 's', 't'] {
            if maker.rng.below(2) == 0 {
                maker.push(vec![Step::new(conn, words("HELLO 3"))]);
            }
        }
        for conn in ['w', 'x'] {
            if maker.rng.below(2) == 0 {
                maker.push(vec![Step::new(conn, words("HELLO 3")), Step::new(conn, Vec::new())]);
            }
        }
        for _ in 0..8 {
            maker.one(BASE);
        }
        maker
    }

    fn end(self) -> Script {
        Script { judges: self.judges, sharded: false, groups: self.groups }
    }

    /// Now and then makes a value large.
    fn large(&mut self, streams: bool) {
        match self.rng.below(1000) {
            0..LARGE_VALUES => {
                let template = LARGE[self.rng.below(LARGE.len() as u64) as usize];
                let group = fill(template, &mut self.rng, &mut self.pools).group;
                self.push(group);
            }
            LARGE_VALUES..8 if streams => {
                let [begin, end] = LARGE_STREAM;
                let add = (0..LARGE_STREAM_LEN).map(|_| "XADD x:9 {newid} {f} {v}");
                let templates = std::iter::once(begin).chain(add).chain([end]);
                let group = templates.flat_map(|t| fill(t, &mut self.rng, &mut self.pools).group).collect();
                self.push(group);
            }
            _ => {}
        }
    }

    fn push(&mut self, mut group: Group) {
        for step in group.iter_mut().filter(|step| step.conn == ANY) {
            step.conn = self.conn;
        }
        self.steps += group.len();
        self.groups.push(group);
    }

    fn filled(&mut self, templates: &[&str]) -> Filled {
        let template = templates[self.rng.below(templates.len() as u64) as usize];
        let mut filled = fill(template, &mut self.rng, &mut self.pools);
        // A group of several steps must stay as it is.
        if self.spoils && filled.plain && filled.group.len() == 1 && self.rng.below(8) == 0 {
            self.spoil(&mut filled.group[0].args);
        }
        filled
    }

    fn one(&mut self, templates: &[&str]) {
        // Now and then from the other connection: rarely, because a change of connections waits for all replies.
        if self.rng.below(40) == 0 {
            self.conn = if self.conn == 'a' { 'b' } else { 'a' };
        }
        let filled = self.filled(templates);
        self.push(filled.group);
    }

    fn scene(&mut self, templates: &[&str]) {
        let template = templates[self.rng.below(templates.len() as u64) as usize];
        let group = fill(template, &mut self.rng, &mut self.pools).group;
        self.push(group);
    }

    /// A whole transaction around commands of the family.
    fn transaction(&mut self, templates: &[&str]) {
        let mut group = vec![Step::new(ANY, words("MULTI"))];
        for _ in 0..1 + self.rng.below(5) {
            let filled = self.filled(templates);
            group.extend(filled.group.into_iter().filter(|_| filled.plain));
        }
        let end = if self.rng.below(6) == 0 { "DISCARD" } else { "EXEC" };
        group.push(Step::new(ANY, words(end)));
        self.push(group);
    }

    /// Leaves out, adds or replaces an argument, or changes the case of letters.
    fn spoil(&mut self, args: &mut Vec<Vec<u8>>) {
        let len = args.len() as u64;
        let junk = words(JUNK);
        let junk = junk[self.rng.below(junk.len() as u64) as usize].clone();
        match self.rng.below(4) {
            0 if len > 1 => {
                args.remove(1 + self.rng.below(len - 1) as usize);
            }
            1 => args.insert(1 + self.rng.below(len) as usize, junk),
            2 if len > 1 => args[1 + self.rng.below(len - 1) as usize] = junk,
            _ => {
                for argument in args {
                    // A key or a value in lower case is another one, which is fine.
                    argument.make_ascii_lowercase();
                }
            }
        }
    }
}
