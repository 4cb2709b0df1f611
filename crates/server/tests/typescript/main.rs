//! The TypeScript client in `clients/typescript` against the real server: its types, its tests in Node, Deno and a Worker, the demo
//! page in a real Chromium, and the package as npm packs it.
//!
//! It is compiled in a copy of the package in `target/typescript`, with the packages of `target/peers`. What is not installed is
//! skipped with the reason, unless `REQUIRE=` names it; `./test` installs all of it.

#![allow(
    clippy::unwrap_used,
    reason = "all of this is test code, which the harness-free main hides from clippy"
)]

#[path = "../common/peers.rs"]
mod peers;

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Failed, Trial};
use peers::{peers, trial};

const NO_NODE: &str = "node is not installed (apt-get install nodejs npm)";
const NO_PACKAGES: &str = "the client's packages are not installed (npm install --prefix target/peers typescript idb playwright-core)";
const NO_CHROMIUM: &str = "Chromium is not installed (apt-get install chromium)";

const NO_DENO: &str = "Deno is not installed (npm install --prefix target/peers deno)";
const NO_WORKERD: &str = "Miniflare is not installed (npm install --prefix target/peers miniflare)";

/// Debian's.
const CHROMIUM: &str = "/usr/bin/chromium";

/// What a script needs besides Node.
#[derive(Clone, Copy)]
enum Needs {
    Nothing,
    Chromium,
    Deno,
    Workerd,
}

/// The tests of the package.
const SCRIPTS: [(&str, &str, Needs); 10] = [
    ("typescript-client", "tests/client.test.mjs", Needs::Nothing),
    ("typescript-device", "tests/device.test.mjs", Needs::Nothing),
    ("typescript-histories", "tests/histories.test.mjs", Needs::Nothing),
    ("typescript-tokens", "tests/tokens.test.mjs", Needs::Nothing),
    ("typescript-package", "tests/package.test.mjs", Needs::Nothing),
    ("typescript-deno", "tests/deno.test.mjs", Needs::Deno),
    ("typescript-workers", "tests/workers.test.mjs", Needs::Workerd),
    ("typescript-chromium", "tests/browser.test.mjs", Needs::Chromium),
    ("typescript-reports", "tests/reports.test.mjs", Needs::Chromium),
    ("typescript-triggers", "tests/triggers.test.mjs", Needs::Chromium),
];

fn main() -> ExitCode {
    let mut trials = vec![
        trial("typescript-build", missing(Needs::Nothing), || {
            Ok(fs::remove_dir_all(build("typescript-build")?)?)
        }),
        Trial::test("typescript-scripts", every_script_is_run),
    ];
    for (name, script, needs) in SCRIPTS {
        trials.push(trial(name, missing(needs), move || run(name, script)));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn missing(needs: Needs) -> Option<&'static str> {
    let has_node = Command::new("node").arg("--version").output().is_ok_and(|output| output.status.success());
    let has = |package: &str| peers().join("node_modules").join(package).join("package.json").is_file();
    if !has_node {
        return Some(NO_NODE);
    }
    if !["typescript", "idb", "playwright-core"].into_iter().all(has) {
        return Some(NO_PACKAGES);
    }
    match needs {
        Needs::Chromium if !Path::new(CHROMIUM).is_file() => Some(NO_CHROMIUM),
        Needs::Deno if !has("deno") => Some(NO_DENO),
        Needs::Workerd if !has("miniflare") => Some(NO_WORKERD),
        Needs::Nothing | Needs::Chromium | Needs::Deno | Needs::Workerd => None,
    }
}

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/typescript")
}

/// Compiles a copy of the package, one for each test.
fn build(name: &str) -> Result<PathBuf, Failed> {
    let copy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/typescript").join(name);
    match fs::remove_dir_all(&copy) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    copy_all(&package(), &copy)?;
    symlink(peers().join("node_modules").canonicalize()?, copy.join("node_modules"))?;
    let output = Command::new("node").arg("node_modules/typescript/bin/tsc").current_dir(&copy).output()?;
    match output.status.success() {
        true => Ok(copy),
        false => Err(String::from_utf8_lossy(&output.stdout).as_ref().into()),
    }
}

fn copy_all(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        // What a person has built or installed there.
        if ["node_modules", "dist"].iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_all(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

fn run(name: &str, script: &str) -> Result<(), Failed> {
    let copy = build(name)?;
    let output = Command::new("node")
        .args(["--test", "--test-reporter=tap", script])
        .current_dir(&copy)
        .env("KEYSTEAD_BINARY", env!("CARGO_BIN_EXE_keystead"))
        .env("CHROMIUM", CHROMIUM)
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    // A script in which no test ran has shown nothing.
    let passed = said.lines().any(|line| line.strip_prefix("# pass ").is_some_and(|count| count != "0"));
    if output.status.success() && passed {
        fs::remove_dir_all(&copy)?;
        return Ok(());
    }
    Err(Failed::from(format!("{}\n{said}\n{}", output.status, String::from_utf8_lossy(&output.stderr))))
}

/// A forgotten script would never run.
fn every_script_is_run() -> Result<(), Failed> {
    for entry in fs::read_dir(package().join("tests"))? {
        let name = format!("tests/{}", entry?.file_name().display());
        let is_listed = SCRIPTS.iter().any(|(_, script, _)| *script == name);
        if name.ends_with(".test.mjs") && !is_listed {
            return Err(format!("{name} is not in SCRIPTS").into());
        }
    }
    Ok(())
}
