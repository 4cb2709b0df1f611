//! What other users of the machine can read or change: the files of a server, its settings, its tokens, its listeners.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use keystead_testkit::server::{Launch, Server};
use tempfile::TempDir;

use crate::client::Client;
use crate::common::{dir, get, launch, only_line, request, run_in};
use crate::{ADDRESS_SPACE_BYTES, assert_unharmed};

/// A user that is neither root nor the one that runs the tests.
const ANOTHER_USER: u32 = 54_321;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Everything at and below a path that other users than its owner may use.
fn open_to_others(path: &Path) -> Vec<String> {
    let mut open = Vec::new();
    if mode(path) & 0o077 != 0 {
        open.push(format!("{:o} {}", mode(path), path.display()));
    }
    if path.is_dir() {
        open.extend(fs::read_dir(path).unwrap().flat_map(|entry| open_to_others(&entry.unwrap().path())));
    }
    open
}

/// A directory for this user only, which a temporary one is not by default.
fn home() -> TempDir {
    let home = dir();
    set_mode(home.path(), 0o700);
    home
}

fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    set_mode(path, mode);
}

/// A server in memory with these arguments.
fn start(arguments: &[&str]) -> Server {
    launch(&["--durability", "memory"]).args(arguments).address_space(ADDRESS_SPACE_BYTES).start().unwrap()
}

/// Gives a file to another user, if this one may.
fn give_away(path: &Path) -> bool {
    chown(path, Some(ANOTHER_USER), Some(ANOTHER_USER)).is_ok()
}

/// The error line of a start that fails.
fn error_of(home: &TempDir, arguments: &[&str]) -> String {
    let arguments = [&["serve", "--durability", "memory", "--http", "127.0.0.1:0"], arguments].concat();
    only_line(2, &run_in(home.path(), &arguments, &[]))
}

#[test]
fn files_are_for_their_owner_only_whatever_the_umask() {
    let home = home();
    let path = |name: &str| home.path().join(name);
    // With a umask of 0 everything that forgets its mode is open to the world.
    let script = "umask 0; exec \"$0\" \"$@\"";
    let server = Launch::new("/bin/sh").args(["-c", script, env!("CARGO_BIN_EXE_keystead"), "--shards", "2"]);
    let server = server.arg("--data").arg(path("data")).arg("--log-file").arg(path("log"));
    let server = server.args(["--log-level", "info"]).address_space(ADDRESS_SPACE_BYTES).start();
    let mut server = server.unwrap();
    let mut client = Client::connect(&server);
    let library = "#!lua name=lib\nredis.register_function('f', function() return 1 end)";
    assert_eq!(client.ask_words(&["FUNCTION", "LOAD", library]), "lib");
    for n in 0..100 {
        assert_eq!(client.ask(&format!("SET k{n} {}", "v".repeat(1000))), "+OK");
    }
    let (address, copy) = (server.http().unwrap().to_string(), path("copy"));
    let backup = ["backup", copy.to_str().unwrap(), "--http", &address];
    let (code, _, stderr) = run_in(home.path(), &backup, &[]);
    assert_eq!(code, 0, "{stderr}");
    let open = || ["data", "copy", "log"].map(|name| open_to_others(&path(name))).concat();
    assert!(path("copy/functions.dump").exists() && path("data/shard-1/archive.sqlite-wal").exists());
    assert_eq!(open(), [""; 0], "while it runs");
    assert!(server.stop().unwrap().success());
    assert_eq!(open(), [""; 0], "when it has ended");
}

#[test]
fn a_data_directory_that_others_may_use_draws_a_warning() {
    let home = home();
    let data = home.path().join("data");
    fs::create_dir(&data).unwrap();
    let start = || crate::common::start_on(&data, &[]).logs();
    set_mode(&data, 0o755);
    assert!(start().contains("is open to other users: chmod 700 "), "{}", start());
    set_mode(&data, 0o700);
    assert!(!start().contains("open to other users"));
}

#[test]
fn a_settings_file_that_others_can_change_draws_a_warning() {
    let home = home();
    let file = home.path().join("k.toml");
    let start = |file_mode: u32, dir_mode: u32| {
        write(&file, "shards = 1", file_mode);
        set_mode(home.path(), dir_mode);
        let server = start(&["--config", file.to_str().unwrap()]);
        assert_unharmed(&server);
        server.logs()
    };
    for (file_mode, dir_mode, words) in [
        (0o666, 0o700, Some("can be changed by other users: chmod go-w ")),
        (0o600, 0o777, Some("can be replaced by other users, who may write to its directory")),
        (0o644, 0o755, None),
        (0o644, 0o1777, None),
    ] {
        let logs = start(file_mode, dir_mode);
        match words {
            Some(words) => assert!(logs.contains(words), "{file_mode:o} {dir_mode:o}: {logs}"),
            None => assert!(!logs.contains("other users"), "{file_mode:o} {dir_mode:o}: {logs}"),
        }
    }
}

#[test]
fn a_settings_file_with_a_token_that_others_can_read_draws_a_warning() {
    let home = home();
    let file = home.path().join("k.toml");
    for (mode, is_open) in [(0o644, true), (0o600, false)] {
        write(&file, "token = \"a-secret-of-many-letters\"", mode);
        let logs = start(&["--config", file.to_str().unwrap()]).logs();
        assert_eq!(
            logs.contains("holds a token or password and is open to other users: chmod 600 "),
            is_open,
            "{logs}"
        );
        assert!(!logs.contains("a-secret-of-many-letters"), "{logs}");
    }
}

#[test]
fn a_settings_file_of_another_user_is_an_error() {
    let home = home();
    let file = home.path().join("keystead.toml");
    write(&file, "shards = 1", 0o644);
    // Only root may change the owner; the rule itself has unit tests.
    if give_away(&file) {
        let line = error_of(&home, &[]);
        assert!(
            line.starts_with("settings file 'keystead.toml' belongs to another user (uid 54321)"),
            "{line}"
        );
    }
}

#[test]
fn a_token_in_a_file_is_the_token() {
    let home = home();
    let [full, read_only] = ["full", "read-only"].map(|name| home.path().join(name));
    write(&full, "a-token-of-some-length\n", 0o600);
    write(&read_only, "another-of-some-length\r\n", 0o600);
    let server = launch(&["--durability", "memory", "--read-only-token-file"]).arg(&read_only);
    let server = server.env("KEYSTEAD_TOKEN_FILE", &full).address_space(ADDRESS_SPACE_BYTES).start().unwrap();
    let mut client = Client::connect(&server);
    assert!(client.ask("GET k").starts_with("-NOAUTH"));
    assert!(client.ask("AUTH a-token-of-some-lengt").starts_with("-WRONGPASS"));
    client.expect(&[("AUTH a-token-of-some-length", "+OK"), ("SET k v", "+OK")]);
    assert_eq!(get(&server, "/get/k").status, 401);
    for token in ["a-token-of-some-length", "another-of-some-length"] {
        let response = request(&server, "GET", "/get/k", &format!("Authorization: Bearer {token}\r\n"));
        assert_eq!(response.status, 200, "{response:?}");
    }
    assert!(!server.logs().contains("other users"), "{}", server.logs());
}

#[test]
fn a_token_file_that_others_can_read_draws_a_warning_and_one_of_another_user_is_an_error() {
    let home = home();
    let file = home.path().join("token");
    write(&file, "a-token-of-some-length\n", 0o644);
    let name = file.to_str().unwrap();
    let logs = start(&["--token-file", name]).logs();
    assert!(
        logs.contains(&format!(
            "token file '{name}' can be read or changed by other users: chmod 600 {name}"
        ))
    );
    assert!(!logs.contains("a-token-of-some-length"), "{logs}");
    set_mode(&file, 0o600);
    if give_away(&file) {
        let line = error_of(&home, &["--token-file", name]);
        assert!(
            line.starts_with(&format!("--token-file {name} belongs to another user (uid 54321)")),
            "{line}"
        );
    }
}

#[test]
fn a_token_file_without_a_token_is_an_error_and_never_blocks() {
    let home = home();
    let path = |name: &str| home.path().join(name);
    write(&path("empty"), "\n", 0o600);
    write(&path("large"), &"x".repeat(1 << 20), 0o600);
    write(&path("good"), "a-token-of-some-length", 0o600);
    let made = std::process::Command::new("mkfifo").arg(path("pipe")).status().unwrap();
    assert!(made.success());
    for (arguments, words) in [
        (&["--token-file", "none"][..], "--token-file none cannot be read (no such file or directory): "),
        (&["--token-file", "empty"], "--token-file empty holds a token that is empty: "),
        (&["--token-file", "large"], "--token-file large holds more than 1026 bytes: "),
        (&["--token-file", "pipe"], "--token-file pipe is not a regular file: "),
        (&["--token-file", "/dev/zero"], "--token-file /dev/zero is not a regular file: "),
        (&["--token-file", "."], "--token-file . is not a regular file: "),
        (&["--token-file", "good", "--token", "x"], "--token-file good conflicts with --token: "),
        (&["--read-only-token-file", "good"], "--read-only-token is set and --token is not"),
    ] {
        let line = error_of(&home, arguments);
        assert!(line.starts_with(words), "{arguments:?}: {line}");
    }
}

#[test]
fn a_listener_that_other_machines_reach_without_tls_draws_a_warning() {
    let words = "can be reached from other machines without TLS";
    let token = ["--token", "a-token-of-some-length"];
    let on = |arguments: &[&str]| start(&[&token, arguments].concat()).logs();
    for (flag, fix) in
        [("--resp", "set --resp-tls-cert and --resp-tls-key"), ("--http", "put a proxy that speaks TLS")]
    {
        let logs = on(&[flag, "0.0.0.0:0"]);
        assert_eq!(logs.matches(words).count(), 1, "{logs}");
        assert!(logs.contains(&format!("{flag} 0.0.0.0:")) && logs.contains(fix), "{logs}");
    }
    assert!(!on(&[]).contains(words), "loopback needs no TLS");
}
