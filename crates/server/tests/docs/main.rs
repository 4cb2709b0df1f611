//! The code blocks of README.md and docs/*.md: shell blocks run in order against the real server, settings are parsed by it.
//!
//! | Case             | What it does                                                                             |
//! |------------------|------------------------------------------------------------------------------------------|
//! | a page, by name  | runs its `sh` blocks, and its `js` blocks that import nothing, in one shell, in order     |
//! | `settings`       | gives every `toml` block of every page to `keystead config`                               |
//! | `json`           | parses every `json` block                                                                |
//! | `js`, `python`   | checks the syntax of every such block                                                    |
//! | `links`          | finds every file, and every heading, that a page links to                                |
//! | `output`         | checks that a wrong output is found                                                      |
//! | `paths`          | finds every path that ARCHITECTURE.md and CONTRIBUTING.md name                            |
//! | `pages`          | finds a guide whose shell blocks nobody runs                                              |
//!
//! Rust blocks are doctests of the crates that they use. A comment directly before a block directs this test:
//!
//! | Comment                    | The block                                                                      |
//! |----------------------------|--------------------------------------------------------------------------------|
//! | `<!-- server -->`          | starts the server for the blocks that follow; its ports become free ones        |
//! | `<!-- streams -->`         | does not end by itself, and is stopped after two seconds                         |
//! | `<!-- not run: REASON -->` | is skipped, and counted                                                          |
//!
//! A `text` or `json` block directly after a shell block is its output: `...` stands for any text, a line `...` for any
//! lines, and a number of ten or more digits for any such number. A `toml` block that begins with `# keystead.toml` is the
//! settings file of its page. A block whose program is not installed is skipped and counted, unless `REQUIRE=all`.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of this is test code, which the harness-free main hides from clippy"
)]

mod blocks;
mod links;
mod output;
mod page;
mod static_checks;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

/// Pages whose blocks run. At least one block of each must. A page for users that has shell blocks is here, or `pages` fails.
const PAGES: &[&str] = &[
    "README.md",
    "docs/configuration.md",
    "docs/redis.md",
    "docs/upstash.md",
    "docs/documents.md",
    "docs/sync.md",
    "docs/limit-api.md",
    "docs/engine.md",
    "docs/openapi.md",
    "docs/stores.md",
    "docs/write-behind.md",
    "docs/event-log.md",
    "docs/cluster.md",
    "docs/cluster-nodes.md",
    "docs/split.md",
];

const PARSE_PYTHON: &str = "import ast, sys; ast.parse(open(sys.argv[1]).read())";

fn main() -> ExitCode {
    let mut trials: Vec<Trial> =
        PAGES.iter().map(|&name| Trial::test(name, move || page::run(name))).collect();
    trials.push(Trial::test("settings", static_checks::settings));
    trials.push(Trial::test("json", static_checks::json));
    trials.push(static_checks::syntax("js", "node", &["--check"], "mjs"));
    trials.push(static_checks::syntax("python", "python3", &["-c", PARSE_PYTHON], "py"));
    trials.push(Trial::test("links", links::check));
    trials.push(Trial::test("paths", links::paths));
    trials.push(Trial::test("output", output::can_fail));
    trials.push(Trial::test("pages", every_page_runs));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn every_page_runs() -> Result<(), Failed> {
    let is_guide = |page: &String| page == "README.md" || page.starts_with("docs/");
    let has_shell = |page: &String| blocks::read(page).iter().any(|block| block.language == "sh");
    let forgotten = |page: &String| is_guide(page) && has_shell(page) && !PAGES.contains(&page.as_str());
    let forgotten: Vec<String> = all_pages().into_iter().filter(forgotten).collect();
    if forgotten.is_empty() { Ok(()) } else { Err(format!("not in PAGES: {forgotten:?}").into()) }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every page, by its path from the root: README.md and its neighbours, docs/*.md and docs/adr/*.md.
fn all_pages() -> Vec<String> {
    let mut pages = Vec::new();
    for folder in ["", "docs/", "docs/adr/"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") {
                pages.push(format!("{folder}{name}"));
            }
        }
    }
    pages.sort();
    pages
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
