//! Words that the project does not use, because the field has others (a listener, not a `door`): in names, in documentation, and in
//! sources, whose comments and texts (errors, logs, help) people read.
//!
//! CONTRIBUTING.md explains the vocabulary. Both lists are written so that ordinary English stays possible; an exception is a row in
//! an allow list, with its reason.

use std::fs;
use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};

use super::{collect, files, none, root};

/// Parts of names (`Told`, `told_keys`), and what to write instead.
///
/// Not here: `busy`, which is Redis's own word for a server that runs a slow script; `rest`, which is also REST and a remainder; `named`
/// and `kept`, which are also ordinary.
const NAME_PARTS: &[(&str, &str)] = &[
    ("answer", "reply, response"),
    ("answers", "replies, responses"),
    ("asked", "params, request"),
    ("came", "outcome, result"),
    ("chance", "rng"),
    ("described", "openapi, description"),
    ("door", "listener, api"),
    ("doors", "listeners, apis"),
    ("gone", "deleted, removed, deletions"),
    ("here", "context"),
    ("hole", "vulnerability, gap"),
    ("holes", "vulnerabilities, gaps"),
    ("house", "conventions, project"),
    ("keeper", "archiver"),
    ("misused", "idempotency"),
    ("once", "idempotency"),
    ("place", "position, index, backend"),
    ("places", "positions, indexes"),
    ("refusal", "rejection, error"),
    ("refused", "rejected, denied"),
    ("repeats", "idempotency"),
    ("resting", "evicted, on_disk"),
    ("rests", "persisted, on_disk"),
    ("shelf", "segments, cold"),
    ("shelves", "segments"),
    ("tell", "report, read, reply"),
    ("tells", "reports, returns"),
    ("told", "reported, returned, list"),
];

/// Names that may have such a part.
const NAMES_ALLOWED: &[(&str, &str)] = &[
    ("Gone", "the HTTP status 410, and its error code"),
    ("at_once", "a call that is ready at once: no runtime is needed"),
];

/// Patterns in the prose of documentation, and what to write instead.
const PROSE: &[(&str, &str)] = &[
    (r"doors?", "listener, API, protocol"),
    (r"tells?|telling|told", "returns, reports, acknowledges"),
    (r"let(s|ting)? go( of)?", "frees, recycles, evicts"),
    (r"refusals?", "rejection, error"),
    (r"shelf|shelves", "segments"),
    (r"keepers?", "archiver"),
    (r"(known|security) holes?", "vulnerabilities"),
    (r"without the holes", "vulnerabilities"),
    (r"at rest", "on disk, while the server is stopped"),
    (r"rests|resting|(they|it|values|keys|may|to) rest (in|on)", "is persisted, is stored, depends on"),
    (r"the house|house rules?", "project, conventions"),
    (r"lives? (in|on)", "is in, is stored in, is served by"),
    (r"chance", "random number generator"),
];

/// Phrases of ordinary English that have such a pattern in them.
const PROSE_ALLOWED: &[(&str, &str)] = &[
    (r"(tell|told) (from|apart)", "to distinguish"),
    (r"data at rest|encrypt(ed|ion) at rest", "the security field's own term"),
    (r"a chance (to|of)", "an opportunity, a probability"),
    (r"second chance", "of the CLOCK algorithm"),
    (r"time[- ]to[- ]lives? in", "a TTL"),
    (r"REST (in|on)", "the style of an API"),
];

/// Compiled once: every source file is searched.
static PROSE_PATTERNS: LazyLock<Vec<(Regex, &str)>> =
    LazyLock::new(|| PROSE.iter().map(|(word, instead)| (pattern(word), *instead)).collect());
static ALLOWED_PATTERNS: LazyLock<Vec<Regex>> =
    LazyLock::new(|| PROSE_ALLOWED.iter().map(|(phrase, _)| pattern(phrase)).collect());
static CODE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?s)```.*?```|`[^`\n]*`|\]\([^)\n]*\)").unwrap());

fn pattern(text: &str) -> Regex {
    let text = format!(r"\b(?:{})\b", text.replace(' ', r"\s+"));
    RegexBuilder::new(&text).case_insensitive(true).build().unwrap()
}

/// `GoneKeys`, `gone_keys` and `GONE_KEYS` as lower-case words.
fn parts(name: &str) -> Vec<String> {
    let word = Regex::new("[A-Z]+(?:[0-9_]|$)|[A-Z]?[a-z]+").unwrap();
    word.find_iter(name)
        .map(|part| part.as_str().trim_end_matches(|c: char| !c.is_alphabetic()).to_lowercase())
        .collect()
}

/// Types and modules of any visibility, and what is public: functions, constants, fields, variants, a trait's functions.
struct Names {
    types: Regex,
    public: Regex,
    open: Regex,
    variant: Regex,
    function: Regex,
}

impl Names {
    fn new() -> Self {
        let regex = |text: &str| Regex::new(text).unwrap();
        Names {
            types: regex(r"^(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait|type|mod) (\w+)"),
            public: regex(
                r"^pub (?:(?:const|async|static|unsafe) )*(?:fn |use .* as )?(?:r#)?(\w+)(?:[:(<;]|$)",
            ),
            open: regex(r"^pub (enum|trait) \w+.*\{$"),
            variant: regex(r"^([A-Z]\w*)[,({ ]"),
            function: regex(r"^(?:async )?fn (\w+)"),
        }
    }

    fn of(&self, text: &str) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        // The public enum or trait that is open, and its indentation.
        let mut open: Option<(usize, bool)> = None;
        for (number, line) in text.lines().enumerate() {
            let code = line.trim_start();
            let indentation = line.len() - code.len();
            if open.is_some_and(|(outer, _)| code == "}" && indentation == outer) {
                open = None;
            }
            let member = match open {
                Some((outer, is_enum)) if indentation == outer + 4 => {
                    if is_enum {
                        self.variant.captures(code)
                    } else {
                        self.function.captures(code)
                    }
                }
                _ => None,
            };
            let name = self.types.captures(code).or_else(|| self.public.captures(code)).or(member);
            found.extend(name.map(|name| (number + 1, name[1].to_string())));
            if let Some(opened) = self.open.captures(code) {
                open = Some((indentation, &opened[1] == "enum"));
            }
        }
        found
    }
}

/// Why a name is not allowed.
fn objection(name: &str) -> Option<String> {
    if NAMES_ALLOWED.iter().any(|(allowed, _)| *allowed == name) {
        return None;
    }
    let parts = parts(name);
    let (part, instead) = NAME_PARTS.iter().find(|(part, _)| parts.iter().any(|word| word == part))?;
    Some(format!("`{part}` in `{name}`: {instead}"))
}

#[test]
fn names_have_the_words_of_the_field() {
    let names = Names::new();
    let mut wrong = Vec::new();
    for (path, text) in files(".rs") {
        let file = path.trim_end_matches(".rs").split('/').filter_map(objection);
        wrong.extend(file.map(|why| format!("{path}: {why}")));
        for (number, name) in names.of(&text) {
            wrong.extend(objection(&name).map(|why| format!("{path}:{number}: {why}")));
        }
    }
    none("names that use a word of our own", &wrong);
}

/// The text without code, at the same places: what stands between backticks is blank.
fn prose(text: &str) -> String {
    let blank = |code: &regex::Captures<'_>| -> String {
        code[0].chars().map(|c| if c == '\n' { '\n' } else { '.' }).collect()
    };
    CODE.replace_all(text, blank).into_owned()
}

/// Matches that no allowed phrase contains, as `line: match: instead`.
fn violations(text: &str) -> Vec<String> {
    let text = prose(text);
    let allowed: Vec<_> = ALLOWED_PATTERNS
        .iter()
        .flat_map(|phrase| phrase.find_iter(&text).map(|found| found.range()).collect::<Vec<_>>())
        .collect();
    let mut found = Vec::new();
    for (word, instead) in PROSE_PATTERNS.iter() {
        for hit in word.find_iter(&text) {
            if allowed.iter().any(|range| range.start <= hit.start() && hit.end() <= range.end) {
                continue;
            }
            let line = text[..hit.start()].matches('\n').count() + 1;
            let words = hit.as_str().split_whitespace().collect::<Vec<_>>().join(" ");
            found.push((line, format!("{line}: \"{words}\": {instead}")));
        }
    }
    found.sort();
    found.into_iter().map(|(_, text)| text).collect()
}

#[test]
fn documentation_has_the_words_of_the_field() {
    let mut pages = Vec::new();
    collect(&root().join("docs"), ".md", &mut pages);
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"] {
        pages.push((name.to_string(), fs::read_to_string(root().join(name)).unwrap()));
    }
    assert!(pages.len() > 10, "found hardly any page");
    let wrong = pages.iter().flat_map(|(path, text)| {
        violations(text).into_iter().map(move |violation| format!("{path}:{violation}"))
    });
    none("documentation that uses a word of our own", &wrong.collect::<Vec<_>>());
}

/// A Rust source at the same lines, without the marks of comments: a phrase may continue on the next line.
fn source_text(text: &str) -> String {
    let line = |line: &str| -> String {
        let code = line.trim_start();
        if code.starts_with("//") {
            code.trim_start_matches(['/', '!']).to_string()
        } else {
            code.to_string()
        }
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// The files outside the crates that people read and run.
const SCRIPTS: [&str; 7] = [
    "test",
    ".ci/run",
    "Dockerfile",
    "compose.yaml",
    "packaging/keystead.env",
    "packaging/keystead.service",
    "packaging/try-dockerfile",
];

#[test]
fn sources_have_the_words_of_the_field() {
    let mut texts: Vec<_> = files(".rs").into_iter().map(|(path, text)| (path, source_text(&text))).collect();
    // The words themselves.
    texts.retain(|(path, _)| path != "crates/testkit/tests/conventions/words.rs");
    for (top, ending) in [("crates", ".cjs"), ("crates", ".py"), ("crates", ".lua"), ("bench", ".cjs")] {
        collect(&root().join(top), ending, &mut texts);
    }
    for name in SCRIPTS {
        texts.push((name.to_string(), fs::read_to_string(root().join(name)).unwrap()));
    }
    let wrong = texts.iter().flat_map(|(path, text)| {
        violations(text).into_iter().map(move |violation| format!("{path}:{violation}"))
    });
    none("sources that use a word of our own", &wrong.collect::<Vec<_>>());
}

#[test]
fn both_lists_find_what_they_should() {
    for name in
        ["Told", "DENIED_KEYS_TOLD", "gone", "HttpDoor", "told2", "tell_time", "shelf", "Refused", "AnswerOf"]
    {
        assert!(objection(name).is_some(), "{name}");
    }
    for name in [
        "Gone",
        "at_once",
        "there",
        "withhold",
        "Doorway",
        "indoors",
        "rest",
        "threshold",
        "becamera",
        "replace",
        "placed",
    ] {
        assert_eq!(objection(name), None, "{name}");
    }
    let source = "pub enum E {\n    Told(u8),\n}\nenum F {\n    Gone,\n}\npub trait T {\n    fn tell(&self);\n}\nstruct Came;\npub fn\
                  \u{20}asked() {}\npub(crate) fn door() {}\npub gone: bool,\npub const ONCE: u8 = 1;\npub use a::b as shelf;\n";
    let found: Vec<_> =
        Names::new().of(source).into_iter().filter(|(_, name)| objection(name).is_some()).collect();
    let lines: Vec<_> = found.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [2, 8, 10, 11, 13, 14, 15]);
    assert_eq!(violations("It lets go\nof a value. `told` is a name.").len(), 1);
    assert_eq!(
        violations("The client is told\n\n```\nthe door\n```\n[x](door.md)"),
        ["1: \"told\": returns, reports, acknowledges"]
    );
    let text = "//! Of the door.\nlet doors_of = 1;\n    /// It is told\n    /// of a `shelf`.\n    error(\"it lets\\\n    go\");";
    assert_eq!(violations(&source_text(text)).len(), 2);
    assert_eq!(
        violations(&source_text("    /// It lets\n    /// go of it, and says \"this tells more\".")).len(),
        2
    );
    assert!(
        violations("It cannot be told from a crash. Data at rest is not encrypted, over REST in JSON.")
            .is_empty()
    );
}
