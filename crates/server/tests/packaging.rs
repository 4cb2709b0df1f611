//! Dockerfile, compose.yaml and the systemd unit: what they name exists, and what they run works. There may be no Docker engine
//! and no systemd to run them, so their words are taken out and given to the real binary.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed, one that cannot run says so"
)]

/// The build script, for its functions.
#[allow(dead_code, unreachable_pub, reason = "its main is Cargo's")]
#[path = "../build.rs"]
mod build;
mod common;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{dir, launch, only_line, run, run_in, start};
use keystead_server::settings::{SETTINGS, Setting};
use keystead_server::{LONG_VERSION, VERSION};
use keystead_testkit::skip::skipped;

const DOCKERFILE: &str = "Dockerfile";
const COMPOSE: &str = "compose.yaml";
const UNIT: &str = "packaging/keystead.service";
const UNIT_ENVIRONMENT: &str = "packaging/keystead.env";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap()
}

/// The lines of a Dockerfile: comments left out, continued lines joined.
fn dockerfile() -> Vec<String> {
    let lines: Vec<String> =
        read(DOCKERFILE).lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
    lines.join("\n").replace("\\\n", " ").lines().map(str::to_owned).collect()
}

/// The words of an instruction of the Dockerfile's last stage.
fn instruction(name: &str) -> String {
    let lines = dockerfile();
    let found = lines.iter().rev().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no {name}")).to_owned()
}

/// The variables that the image sets.
fn image_variables() -> Vec<(String, String)> {
    let pair = |word: &str| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    instruction("ENV").split_whitespace().filter_map(pair).collect()
}

/// The words of the form `["a", "b"]` behind the last `[` of a line.
fn exec_form(text: &str) -> Vec<String> {
    serde_json::from_str(&text[text.rfind('[').unwrap()..]).unwrap()
}

/// Every word with this beginning.
fn words<'a>(text: &'a str, start: &str) -> Vec<&'a str> {
    let is_end = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let end = |at: usize| text[at..].find(is_end).map_or(text.len(), |length| at + length);
    text.match_indices(start).map(|(at, _)| &text[at..end(at)]).collect()
}

#[test]
fn every_variable_is_a_setting() {
    for file in [DOCKERFILE, COMPOSE, UNIT, UNIT_ENVIRONMENT] {
        let text = read(file);
        let variables = words(&text, "KEYSTEAD_");
        assert!(!variables.is_empty(), "{file}");
        for variable in variables {
            let is_setting = SETTINGS.iter().any(|setting| setting.variable() == variable);
            assert!(is_setting || variable == "KEYSTEAD_COMMIT", "{file}: {variable}");
        }
    }
}

#[test]
fn every_command_exists_and_takes_its_flags() {
    let compose = read(COMPOSE);
    let test = compose.lines().find(|line| line.trim().starts_with("test:")).unwrap();
    let entry = [exec_form(&instruction("ENTRYPOINT")), exec_form(&instruction("CMD"))].concat();
    let unit = read(UNIT);
    let exec: Vec<String> = unit
        .lines()
        .filter_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/"))
        .map(str::to_owned)
        .collect();
    let exec_start = exec[0].split(' ').map(str::to_owned).collect();
    let health = exec_form(&instruction("HEALTHCHECK"));
    assert_eq!(exec_form(test)[1..], health[..], "compose.yaml checks health as the image does");
    for command in [health, entry, exec_start] {
        assert_eq!(command[0], "keystead");
        let arguments: Vec<&str> = command[1..].iter().map(String::as_str).chain(["--help"]).collect();
        let (code, help, stderr) = run(&arguments);
        assert_eq!(code, 0, "{command:?}: {stderr}");
        for flag in command[1..].iter().filter(|word| word.starts_with("--")) {
            assert!(help.contains(&format!("{flag} ")), "{command:?}: {flag}");
        }
    }
}

#[test]
fn the_image_takes_its_token_from_the_environment_and_asks_for_it() {
    let variables = image_variables();
    let set: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let line = only_line(2, &run_in(dir().path(), &["serve"], &set));
    assert!(line.contains("no token is set: set one, for example KEYSTEAD_TOKEN="), "{line}");
    let with_token = [&set[..], &[("KEYSTEAD_TOKEN", "s3cret-s3cret-s3cret")]].concat();
    let (code, config, stderr) = run_in(dir().path(), &["config"], &with_token);
    assert_eq!((code, stderr.as_str()), (0, ""));
    for (name, value) in with_token {
        let setting = SETTINGS.iter().find(|setting| setting.variable() == name).map(|s: &Setting| s.name);
        let is_line = |line: &&str| line.split(' ').next() == setting && line.ends_with(name);
        let line = config.lines().find(is_line).unwrap_or_else(|| panic!("{name}: {config}"));
        assert!(line.contains(value) || line.contains("(set)"), "{line}");
    }
}

#[test]
fn the_ports_of_the_image_are_those_it_listens_on() {
    let mut listens: Vec<String> = image_variables()
        .iter()
        .filter_map(|(_, value)| Some(value.strip_prefix("0.0.0.0:")?.to_owned()))
        .collect();
    listens.sort_by(|a, b| b.cmp(a));
    assert_eq!(instruction("EXPOSE"), listens.join(" "));
    let compose = read(COMPOSE);
    for port in listens {
        assert!(compose.contains(&format!("127.0.0.1:{port}:{port}")), "{port}");
    }
}

#[test]
fn the_image_is_built_with_the_toolchain_of_the_workspace_and_runs_as_a_user() {
    let version = read("Cargo.toml");
    let version =
        version.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap().trim_matches('"');
    assert!(read(DOCKERFILE).contains(&format!("FROM rust:{version}-bookworm AS build")), "{version}");
    assert_eq!(instruction("USER"), "keystead");
    for path in ["Cargo.toml", "Cargo.lock", "crates", "bench"] {
        assert!(read(".dockerignore").contains(&format!("\n!{path}\n")), "the build needs {path}");
    }
}

#[test]
fn the_steps_of_the_dockerfile_make_an_image_that_works() {
    let mounts = ["--mount", "--net", "mount", "-t", "tmpfs", "tmpfs", "/mnt"];
    let may_mount = Command::new("unshare").args(mounts).output().is_ok_and(|ended| ended.status.success());
    if !may_mount {
        return skipped("packaging", "only root may mount, and not in every container");
    }
    let script = root().join("packaging/try-dockerfile");
    let output = Command::new(script).args(["--binary", env!("CARGO_BIN_EXE_keystead")]).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    for words in
        ["RUN useradd ", "can be reached from other machines and no token is set", "health check: 0 ok"]
    {
        assert!(stdout.contains(words), "{words}: {stdout}");
    }
    assert!(
        stdout.contains("Uid: 10001") && stdout.contains("stopped with 0; /data: mode 700, owner 10001"),
        "{stdout}"
    );
}

#[test]
fn systemd_accepts_the_unit() {
    let unit = read(UNIT).replace("/usr/local/bin/keystead", "/bin/true");
    let dir = dir();
    let path = dir.path().join("keystead.service");
    std::fs::write(&path, unit).unwrap();
    let Ok(output) = Command::new("systemd-analyze").arg("verify").arg(&path).output() else {
        return skipped("packaging", "systemd-analyze is not installed");
    };
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!stderr.contains("keystead.service"), "{stderr}");
}

#[test]
fn a_running_server_is_healthy() {
    for token in [None, Some("s3cret-s3cret-s3cret")] {
        let mut launch = launch(&["--durability", "memory"]);
        if let Some(token) = token {
            launch = launch.env("KEYSTEAD_TOKEN", token);
        }
        let mut server = launch.start().unwrap();
        let address = server.http().unwrap().to_string();
        // The health check of the image has the server's variables, and so may have the token or not.
        for set in [
            &[("KEYSTEAD_HTTP", address.as_str())][..],
            &[("KEYSTEAD_HTTP", &address), ("KEYSTEAD_TOKEN", "x")],
        ] {
            assert_eq!(run_in(dir().path(), &["health"], set), (0, "ok\n".to_owned(), String::new()));
        }
        assert_eq!(run(&["health", "--http", &address]).0, 0);
        let port = address.rsplit(':').next().unwrap();
        assert_eq!(run(&["health", "--http", &format!("0.0.0.0:{port}")]).0, 0);
        assert!(server.stop().unwrap().success());
        let line = only_line(1, &run(&["health", "--http", &address]));
        assert!(line.starts_with(&format!("no server answers at {address} (")), "{line}");
    }
}

#[test]
fn what_is_not_a_healthy_server_is_said_in_one_line() {
    let server = start(&["--durability", "memory"]);
    let resp = server.resp().unwrap().to_string();
    let line = only_line(1, &run(&["health", "--http", &resp]));
    assert!(line.contains("does not speak HTTP") || line.contains("does not answer"), "{line}");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let line = only_line(1, &run(&["health", "--http", &address]));
    assert!(line.contains("does not answer an HTTP request within 5 s"), "{line}");
    for (address, words) in [("off", "is not an address to connect to"), ("nonsense", "is not an address")] {
        let line = only_line(2, &run(&["health", "--http", address]));
        assert!(line.contains(words), "{line}");
    }
}

#[test]
fn the_version_is_printed_with_the_commit_in_release_builds() {
    assert_eq!(run(&["--version"]), (0, format!("keystead {LONG_VERSION}\n"), String::new()));
    if option_env!("KEYSTEAD_COMMIT").is_none() {
        let is_known = !cfg!(debug_assertions) && build::head_commit(&root()).is_some();
        assert_eq!(LONG_VERSION != VERSION, is_known, "{LONG_VERSION}");
    }
}

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

#[test]
fn the_commit_is_read_from_a_checkout_a_worktree_and_packed_refs() {
    let dir = dir();
    let write = |path: &str, text: &str| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("loose/.git/HEAD", "ref: refs/heads/main\n");
    write("loose/.git/refs/heads/main", &format!("{COMMIT}\n"));
    write("detached/.git/HEAD", &format!("{COMMIT}\n"));
    write("packed/.git/HEAD", "ref: refs/heads/a/main\n");
    write("packed/.git/refs/heads/other", "ffff\n");
    let line = |commit: &str, name: &str| format!("{commit} refs/heads/{name}\n");
    let packed = format!("# pack-refs with: peeled\n{}{}", line("ffff", "b/a/main"), line(COMMIT, "a/main"));
    write("packed/.git/packed-refs", &packed);
    write("worktree/.git", "gitdir: ../loose/.git/worktrees/w\n");
    write("loose/.git/worktrees/w/HEAD", "ref: refs/heads/main\n");
    write("loose/.git/worktrees/w/commondir", "../..\n");
    for root in ["loose", "detached", "packed", "worktree"] {
        let commit = build::head_commit(&dir.path().join(root));
        assert_eq!(commit.as_deref().map(str::trim), Some(COMMIT), "{root}");
    }
    write("tarball/Cargo.toml", "");
    write("unborn/.git/HEAD", "ref: refs/heads/main\n");
    for root in ["tarball", "unborn"] {
        assert_eq!(build::head_commit(&dir.path().join(root)), None, "{root}");
    }
}

#[test]
fn the_long_version_has_a_commit_or_nothing() {
    assert_eq!(build::long_version(Some(COMMIT)), format!("{VERSION} (0123456789ab)"));
    assert_eq!(build::long_version(Some("abc\n")), format!("{VERSION} (abc)"));
    for none in [None, Some(""), Some("unknown\ncargo::warning=x"), Some("$Format:%H$")] {
        assert_eq!(build::long_version(none), VERSION, "{none:?}");
    }
}
