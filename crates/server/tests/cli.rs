//! The command line, the settings and the start, through the real binary.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::net::{TcpListener, TcpStream};

use common::{dir, get, launch, only_line, run, run_in, run_reading, start, start_on};
use serde_json::Value;
use tempfile::TempDir;

/// The error of a start that must fail, which is one line.
fn error_in(dir: &TempDir, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    only_line(2, &run_in(dir.path(), arguments, variables))
}

fn error_of(arguments: &[&str]) -> String {
    error_in(&dir(), arguments, &[])
}

fn write(dir: &TempDir, name: &str, text: &str) {
    std::fs::write(dir.path().join(name), text).unwrap();
}

/// The value and source of a setting, as `keystead config` prints them.
fn config_line(stdout: &str, name: &str) -> (String, String) {
    let line = stdout.lines().find(|l| l.split_whitespace().next() == Some(name)).unwrap();
    let mut columns = line.split("  ").map(str::trim).filter(|c| !c.is_empty()).skip(1);
    (columns.next().unwrap().to_owned(), columns.next().unwrap().to_owned())
}

#[test]
fn a_server_prints_its_ready_block() {
    let mut server = start(&[]);
    let (http, resp) = (server.http().unwrap(), server.resp().unwrap());
    let expected = format!(
        "keystead 0.1.0 is ready\n  \
           http        http://{http}\n  \
           resp        redis://{resp}\n  \
           data        ./keystead-data\n  \
           durability  fsync\n  \
           try         curl -s http://{http}/healthz\n  \
           try         redis-cli -u redis://{resp} ping\n"
    );
    assert!(http.port() != 0 && resp.port() != 0);
    assert_eq!(server.stop().unwrap().code(), Some(0));
    // Where the system grants few files it says so, and that is not the server's doing.
    let logs = server.logs();
    let said: String =
        logs.split_inclusive('\n').filter(|line| !line.contains("limit of open files")).collect();
    assert_eq!(said, expected, "quiet by default");
}

#[test]
fn the_data_directory_is_created_unless_everything_is_in_memory() {
    for (durability, is_created) in [("fsync", true), ("commit", true), ("memory", false)] {
        let outer = dir();
        let data = outer.path().join("deep/data");
        let server = start_on(&data, &["--durability", durability]);
        assert_eq!(data.exists(), is_created, "{durability}");
        assert_eq!(server.line("durability").as_deref(), Some(durability));
        assert_eq!(server.line("data").unwrap().starts_with("in memory only"), !is_created);
    }
}

#[test]
fn serve_is_the_default_subcommand() {
    assert_eq!(get(&start(&["serve", "--durability", "memory"]), "/healthz").status, 200);
}

#[test]
fn each_listener_may_be_off_but_not_both() {
    let only_resp = start(&["--durability", "memory", "--http", "off"]);
    assert!(only_resp.http().is_err() && !only_resp.logs().contains("http"), "{}", only_resp.logs());
    assert!(only_resp.resp().is_ok_and(|address| TcpStream::connect(address).is_ok()));
    let only_http = start(&["--durability", "memory", "--resp", "off"]);
    assert!(only_http.resp().is_err() && !only_http.logs().contains("redis"), "{}", only_http.logs());
    assert_eq!(get(&only_http, "/healthz").status, 200);
    let line = error_of(&["--http", "off", "--resp", "off"]);
    assert_eq!(line, "--http and --resp are both off: open one, for example --http 127.0.0.1:8080");
}

#[test]
fn a_port_in_use_names_the_address_and_another_one() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (flag, other) in [("--http", "--resp"), ("--resp", "--http")] {
        let line = error_of(&[flag, &address, other, "127.0.0.1:0"]);
        assert!(line.starts_with(&format!("{flag} {address} is in use by another program: ")), "{line}");
        assert!(line.contains(&format!("choose another port, for example {flag} 127.0.0.1:")), "{line}");
    }
}

#[test]
fn invalid_values_are_errors_that_say_what_to_write() {
    for (arguments, starts, ends) in [
        (["--shards", "3"], "--shards 3 is not a power of two: ", "up to 256, or auto"),
        (["--shards", "1000"], "--shards 1000 is not a power of two: ", "up to 256, or auto"),
        (["--shards", "512"], "--shards 512 is more than 256 shards: ", "up to 256, or auto"),
        (["--shards", "-1"], "--shards -1 is not a whole number of shards: ", "up to 256, or auto"),
        (["--memory", "512"], "--memory 512 has no unit (b, kb, mb, gb): ", "or unlimited"),
        (["--memory", "1kb"], "--memory 1kb is less than 1mb: ", "or unlimited"),
        (
            ["--durability", "fsnc"],
            "--durability fsnc is not one of fsync, commit, memory: ",
            "did you mean 'fsync'?",
        ),
        (["--http", "8080"], "--http 8080 is not an address: ", "or off"),
        (["--http", ""], "--http '' is not an address: ", "or off"),
        (["--resp", "6379"], "--resp 6379 is not an address: ", "or off"),
        (
            ["--http", "no.such.host.invalid:1"],
            "--http no.such.host.invalid:1: the host ",
            "--http 127.0.0.1:1",
        ),
        (["--http", "203.0.113.7:1"], "--http 203.0.113.7:1 can be reached from other machines", "127.0.0.1"),
        (["--log", "xml"], "--log xml is not one of text, json: ", "write one of these"),
        (["--log-level", "debg"], "--log-level debg is not one of off, ", "did you mean 'debug'?"),
        (["--data", ""], "--data '' is empty: ", "write a path"),
        (["--token", "two words"], "--token contains a space", "openssl rand -hex 32"),
        (["--config", "missing.toml"], "cannot read settings file 'missing.toml': ", "--config FILE"),
        (["--durabilty", "fsync"], "unknown flag '--durabilty': ", "did you mean '--durability'?"),
        (["confg", ""], "unknown command 'confg': ", "did you mean 'config'?"),
    ] {
        let line = error_of(&arguments);
        assert!(line.starts_with(starts) && line.ends_with(ends), "{arguments:?}: {line}");
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_an_error() {
    let dir = dir();
    write(&dir, "file", "");
    // Below a regular file and in /proc no user can write, not even root.
    for data in ["file/data", "/proc/keystead"] {
        let line = error_in(&dir, &["--http", "127.0.0.1:0", "--data", data], &[]);
        assert!(line.starts_with(&format!("cannot open the database: cannot create {data}: ")), "{line}");
        assert!(
            line.ends_with("; --data DIR names another directory, --durability memory needs none"),
            "{line}"
        );
    }
}

#[test]
fn listening_for_other_machines_needs_a_token() {
    for (flag, other) in [("--http", "--resp"), ("--resp", "--http")] {
        for address in ["0.0.0.0:0", "[::]:0", "192.168.0.1:0"] {
            let line = error_of(&[flag, address, other, "127.0.0.1:0"]);
            let starts = format!("{flag} {address} can be reached from other machines");
            assert!(line.starts_with(&starts) && line.contains("KEYSTEAD_TOKEN="), "{line}");
        }
    }
    let server = launch(&["--http", "0.0.0.0:0", "--durability", "memory"]).env("KEYSTEAD_TOKEN", "s3cret");
    let server = server.start().unwrap();
    assert!(server.line("try").unwrap().starts_with("curl -s http://127.0.0.1:"), "{}", server.logs());
}

#[test]
fn a_flag_wins_over_a_variable_over_the_file_over_the_default() {
    let dir = dir();
    let file = "http = \"127.0.0.1:1111\"\ndurability = \"memory\"\nshards = 8\nmemory = \"4gb\"\nlog-level = \"info\"\n";
    write(&dir, "keystead.toml", file);
    let variables =
        [("KEYSTEAD_HTTP", "127.0.0.1:2222"), ("KEYSTEAD_SHARDS", "4"), ("KEYSTEAD_TOKEN", "hunter2")];
    let (code, stdout, stderr) = run_in(dir.path(), &["config", "--http", "127.0.0.1:3333"], &variables);
    assert_eq!((code, stderr.as_str()), (0, ""));
    for (name, value, source) in [
        ("http", "127.0.0.1:3333", "flag"),
        ("shards", "4", "KEYSTEAD_SHARDS"),
        ("memory", "4gb", "keystead.toml"),
        ("durability", "memory", "keystead.toml"),
        ("log-level", "info", "keystead.toml"),
        ("data", "./keystead-data", "default"),
        ("token", "(set)", "KEYSTEAD_TOKEN"),
        ("config", "keystead.toml", "default"),
    ] {
        assert_eq!(config_line(&stdout, name), (value.to_owned(), source.to_owned()), "{stdout}");
    }
    assert!(!stdout.contains("hunter2"));
}

#[test]
fn unset_shards_and_unlimited_memory_are_shown_as_such() {
    let (_, stdout, _) = run(&["config"]);
    assert_eq!(config_line(&stdout, "shards"), ("(not set)".to_owned(), "default".to_owned()));
    assert_eq!(config_line(&stdout, "memory"), ("unlimited".to_owned(), "default".to_owned()));
}

#[test]
fn another_file_can_be_named_by_flag_or_variable() {
    let dir = dir();
    write(&dir, "keystead.toml", "this is not TOML, and not read");
    write(&dir, "other.toml", "shards = 2\n");
    for (arguments, variables) in [
        (&["config", "--config", "other.toml"][..], &[][..]),
        (&["config"], &[("KEYSTEAD_CONFIG", "other.toml")]),
    ] {
        let (_, stdout, _) = run_in(dir.path(), arguments, variables);
        assert_eq!(config_line(&stdout, "shards"), ("2".to_owned(), "other.toml".to_owned()));
    }
}

#[test]
fn errors_in_the_settings_file_name_the_line() {
    for (text, line) in [
        ("\ndurabilty = \"fsync\"", "keystead.toml:2: unknown key 'durabilty': did you mean 'durability'?"),
        (
            "shards = 3",
            "keystead.toml:1: shards = 3 is not a power of two: write 1, 2, 4, 8, ... up to 256, or auto",
        ),
        (
            "shards = \"4\"",
            "keystead.toml:1: shards is of type string and must be a whole number or \"auto\": write shards = 1",
        ),
        (
            "token = \"a b\"",
            "keystead.toml:1: token contains a space or a character that is not visible ASCII: ",
        ),
        ("http = \n", "keystead.toml:1: not valid TOML: "),
    ] {
        let dir = dir();
        write(&dir, "keystead.toml", text);
        for command in ["serve", "config"] {
            let error = error_in(&dir, &[command], &[]);
            assert!(error.starts_with(line), "{error}");
        }
    }
}

#[test]
fn a_misspelt_variable_draws_a_warning() {
    let (code, stdout, stderr) = run_in(dir().path(), &["config"], &[("KEYSTEAD_DURABILTY", "memory")]);
    assert_eq!(
        stderr,
        "keystead: warning: the variable KEYSTEAD_DURABILTY is not a setting and has no effect: did you mean KEYSTEAD_DURABILITY?\n"
    );
    assert_eq!((code, config_line(&stdout, "durability").0.as_str()), (0, "fsync"));
}

#[test]
fn help_and_version_are_printed() {
    let (code, help, _) = run(&["--help"]);
    assert_eq!(code, 0);
    for words in
        ["Examples:", "--durability", "KEYSTEAD_", "keystead.toml", "keystead config", "backup", "check"]
    {
        assert!(help.contains(words), "{words}");
    }
    let (_, help, _) = run(&["backup", "--help"]);
    assert!(help.contains("on its own file system") && help.contains("<DIR>"), "{help}");
    assert!(!help.contains('\u{1b}'), "no colours in a pipe");
    let (_, help, _) = run(&["limit", "replay", "--help"]);
    assert!(help.contains("--policy <POLICY>") && help.contains("--config <FILE>"), "{help}");
    assert!(!help.contains("--http") && !help.contains("--durability"), "what means nothing here: {help}");
    assert!(run(&["--version"]).1.starts_with("keystead 0.1.0"));
}

#[test]
fn help_is_also_a_subcommand() {
    for (words, flag) in [
        (&["help"][..], &["--help"][..]),
        (&["help", "serve"], &["serve", "--help"]),
        (&["help", "backup"], &["backup", "--help"]),
        (&["help", "limit"], &["limit", "--help"]),
        (&["help", "health"], &["health", "--help"]),
    ] {
        assert_eq!(run(words), run(flag), "{words:?}");
        assert_eq!(run(words).0, 0);
    }
    assert_eq!(error_of(&["help", "confg"]), "unknown command 'confg': did you mean 'config'?");
}

#[test]
fn the_guide_lists_every_command() {
    let guide = include_str!("../../../docs/configuration.md");
    let (_, section) = guide.split_once("\n## Commands\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let (_, help, _) = run(&["help"]);
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let names: Vec<&str> = commands
        .lines()
        .take_while(|line| !line.is_empty())
        .map(|line| line.split_whitespace().next().unwrap())
        .collect();
    assert!(names.contains(&"serve") && names.contains(&"health"), "{help}");
    for name in names {
        assert!(section.contains(&format!("`keystead {name}")), "docs/configuration.md: {name}");
    }
}

#[test]
fn json_logs_are_one_object_per_line() {
    let flags = ["--durability", "memory", "--log", "json", "--log-level", "debug", "--token", "s3cret"];
    let mut server = start(&flags);
    get(&server, "/healthz");
    assert!(server.stop().unwrap().success());
    let log = server.logs();
    let lines: Vec<Value> = log.lines().filter_map(|l| serde_json::from_str(l).ok()).collect();
    assert_eq!(log.lines().count() - lines.len(), 7, "the rest is the ready block: {log}");
    let request = lines.iter().find(|l| l["message"] == "request").unwrap();
    assert_eq!((&request["route"], &request["status"]), (&"/healthz".into(), &200.into()));
    assert!(lines.iter().all(|l| l["level"].is_string() && l["timestamp"].is_string()));
    assert!(!log.contains("s3cret"));
}

const TRAFFIC: &str = "\u{feff}{\"now\":1000,\"key\":\"ada\"}\n{\"now\":1001,\"key\":{\"base64\":\"/w==\"}}\n\
                       {\"now\":1002,\"key\":\"ada\"}\n{\"now\":1003,\"key\":{\"base64\":\"/w==\"},\"cost\":1}\n";

/// A directory with policies of every form, all of which allow each key once.
fn policies() -> TempDir {
    let dir = dir();
    let table = "kind = \"fixedWindow\"\nlimit = 1\nwindowMs = \"1s\"\nfail = \"closed\"\nstore = \"memory\"\nheaders = [\"plain\"]\n";
    write(&dir, "one.TOML", table);
    write(&dir, "keystead.toml", &format!("http = \"off\"\n[limit.one]\n{table}[limit.again]\n{table}"));
    write(&dir, "other.toml", &format!("[limit.elsewhere]\n{table}"));
    let object = r#""kind":"fixedWindow","limit":1,"windowMs":1000"#;
    write(&dir, "one.json", &format!("\u{feff}{{{object},\"store\":\"memory\",\"headers\":[]}}"));
    write(&dir, "two.json", &format!("{{{}}}", object.replace("\"limit\":1", "\"limit\":2")));
    dir
}

#[test]
fn a_policy_is_json_a_file_or_a_name() {
    let dir = policies();
    for policy in [
        &[r#"{"kind":"fixedWindow","limit":1,"windowMs":1000}"#][..],
        &["@one.json"],
        &["@one.TOML"],
        &["one"],
        &["elsewhere", "--config", "other.toml"],
    ] {
        let arguments = [&["limit", "replay", "--policy"], policy].concat();
        let (code, stdout, stderr) = run_reading(TRAFFIC.as_bytes(), dir.path(), &arguments);
        assert_eq!((code, stderr.as_str()), (0, ""), "{policy:?}");
        let lines = stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let allowed: Vec<bool> = lines.map(|decision| decision["allowed"] == true).collect();
        assert_eq!(allowed, [true, true, false, false], "{policy:?}");
    }
    let arguments = ["limit", "replay", "--policy", "again", "--compare", "@two.json"];
    let (code, stdout, _) = run_reading(TRAFFIC.as_bytes(), dir.path(), &arguments);
    let lines: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((code, lines.len()), (0, 3), "{stdout}");
    assert_eq!((&lines[0]["key"], &lines[1]["key"]["base64"]), (&"ada".into(), &"/w==".into()));
    assert_eq!(lines[2]["summary"]["keysAffected"], 2);
}

#[test]
fn an_invalid_policy_is_reported() {
    let dir = policies();
    write(&dir, "broken.json", "{\n  \"limit\" 1\n}");
    write(&dir, "bare.toml", "http = \"off\"\n");
    for (arguments, begins, names) in [
        (
            &["nine"][..],
            "--policy: there is no policy 'nine' in 'keystead.toml', which has again, one: ",
            "@FILE",
        ),
        (
            &["one", "--config", "bare.toml"],
            "--policy: there is no policy 'one' in 'bare.toml', which has none: ",
            "",
        ),
        (
            &["one", "--config", "gone.toml"],
            "--policy: cannot read settings file 'gone.toml': ",
            "--config FILE",
        ),
        (&["@gone.json"], "--policy: cannot read 'gone.json': no such file or directory: ", ""),
        (
            &["@broken.json"],
            "--policy: broken.json: a policy must be JSON: expected `:` at line 2 column 11: ",
            "",
        ),
        (&["@other.toml"], "--policy: other.toml: this is a settings file: ", "--config FILE"),
        (
            &["{\"limit\":1,}"],
            "--policy: a policy must be JSON: trailing comma at line 1 column 12: ",
            "JSON",
        ),
        (&["{\"limit\":1,\"limit\":2}"], "--policy: 'limit' is there twice: ", ""),
        (&["{\"limit\":1,\"periodMs\":1,\"store\":\"memory\"}"], "--policy: gcra: ", "store"),
        (
            &["one", "--compare", "nine"],
            "--compare: there is no policy 'nine' in 'keystead.toml'",
            "again, one",
        ),
        (&["one", "--http", "off"], "--http has no effect on keystead limit: ", "leave it out"),
    ] {
        let line = error_in(&dir, &[&["limit", "replay", "--policy"], arguments].concat(), &[]);
        assert!(line.starts_with(begins) && line.contains(names), "{line}");
    }
    let line = error_of(&["limit", "replay", "--policy", "one"]);
    assert!(
        line.starts_with("--policy: there is no policy 'one': there is no keystead.toml here: "),
        "{line}"
    );
    let line = error_of(&["--shards", "4", "limit", "replay", "--policy", "{}"]);
    assert!(line.starts_with("--shards has no effect on keystead limit: "), "{line}");
}
