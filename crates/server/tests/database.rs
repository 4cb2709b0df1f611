//! The database of a server: opened, rejected, copied, checked and closed, through the real binary.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use common::{Client, Ended, dir, fill, get, only_line, report_line, run, run_in, start, start_on};
use keystead_testkit::server::Server;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn check(dir: &Path) -> Ended {
    run(&["check", text(dir)])
}

/// A check that finds nothing wrong: the report.
fn sound(dir: &Path) -> String {
    let (code, stdout, stderr) = check(dir);
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    assert!(stdout.ends_with("\nsound\n"), "{stdout}");
    stdout
}

fn backup(server: &Server, dir: &Path, variables: &[(&str, &str)]) -> Ended {
    let address = server.http().unwrap().to_string();
    run_in(server.dir(), &["backup", text(dir), "--http", &address], variables)
}

/// A database whose journal holds keys that its archive does not have: that of an earlier moment is put back.
fn unarchived(data: &Path, keys: usize) {
    fill(data, None, 0);
    let (archive, earlier) = (data.join("shard-0/archive.sqlite"), data.join("earlier"));
    fs::copy(&archive, &earlier).unwrap();
    fill(data, None, keys);
    fs::rename(&earlier, &archive).unwrap();
    let report = sound(data);
    assert_eq!(report_line(&report, "unarchived"), format!("{keys} revisions, in the journal only"));
}

/// Overwrites some of a file.
fn damage(file: &Path, from: u64) {
    let file = fs::OpenOptions::new().write(true).open(file).unwrap();
    file.write_all_at(&[0x5a; 4096], from).unwrap();
}

#[test]
fn an_existing_database_opens_as_it_is_and_not_otherwise() {
    let outer = dir();
    let data = outer.path().join("data");
    fill(&data, Some(4), 100);
    let mut server = start_on(&data, &[]);
    let metrics = get(&server, "/metrics").body;
    assert!(metrics.contains(r#"keystead_shard_durable_revision{shard="3"} "#), "{metrics}");
    assert!(server.stop().unwrap().success());

    let line = only_line(2, &run(&["--http", "127.0.0.1:0", "--data", text(&data), "--shards", "2"]));
    assert!(line.contains("the database has 4 shards") && line.contains("without --shards"), "{line}");
    assert!(start_on(&data, &["--shards", "4"]).stop().unwrap().success());
    assert!(start_on(&data, &["--shards", "auto"]).stop().unwrap().success());
    assert_eq!(report_line(&sound(&data), "shards"), "4", "auto is for a new database");
    assert_eq!(report_line(&sound(&data), "keys"), "100");
}

#[test]
fn a_new_database_has_a_shard_per_core_with_auto() {
    let home = dir();
    let data = home.path().join("data");
    assert!(start_on(&data, &["--shards", "auto"]).stop().unwrap().success());
    let cores = std::thread::available_parallelism().unwrap().get();
    let shards: usize = report_line(&sound(&data), "shards").parse().unwrap();
    assert!(shards.is_power_of_two() && shards <= cores && 2 * shards > cores, "{shards} for {cores} cores");
}

#[test]
fn a_database_that_another_server_has_open_is_an_error_and_unchanged() {
    let outer = dir();
    let mut server = start_on(outer.path(), &[]);
    let holder = server.pid().to_string();
    for arguments in
        [&["--http", "127.0.0.1:0", "--data", text(outer.path())][..], &["check", text(outer.path())]]
    {
        let line = only_line(2, &run(arguments));
        assert!(line.contains("open in another process") && line.contains(&holder), "{line}");
    }
    assert_eq!(get(&server, "/readyz").status, 200);
    assert!(server.stop().unwrap().success());
    sound(outer.path());
}

#[test]
fn a_damaged_a_newer_and_a_foreign_database_are_errors_that_say_what_to_do() {
    let outer = dir();
    let of = |name: &str| outer.path().join(name);
    fill(&of("damaged"), None, 10);
    damage(&of("damaged/shard-0/archive.sqlite"), 0);
    for (name, description) in [("newer", r#"{"format":99,"id":"0","shards":1}"#), ("foreign", "hello")] {
        fs::create_dir(of(name)).unwrap();
        fs::write(of(name).join("database.json"), description).unwrap();
    }
    for (name, words, advice, check_code) in [
        ("damaged", "archive.sqlite: ", "keystead check DIR reports", 1),
        ("foreign", "not a database's description", "keystead check DIR reports", 1),
        ("newer", "newer", "--data DIR names another database", 2),
    ] {
        let line = only_line(2, &run(&["--http", "127.0.0.1:0", "--data", text(&of(name))]));
        assert!(line.contains(words) && line.contains(advice), "{line}");
        let (code, stdout, stderr) = check(&of(name));
        assert!(code == check_code && (stdout + &stderr).contains(words), "{code}: {stderr}");
    }
}

#[test]
fn a_stop_archives_everything() {
    let outer = dir();
    unarchived(outer.path(), 300);
    let mut server = start_on(outer.path(), &[]);
    let status = server.stop().unwrap();
    assert_eq!(status.code(), Some(0), "{}", server.logs());
    let report = sound(outer.path());
    assert_eq!(report_line(&report, "keys"), "300");
    assert_eq!(report_line(&report, "unarchived"), "0 revisions, in the journal only");
}

#[test]
fn a_killed_server_starts_again_on_what_it_had() {
    let outer = dir();
    unarchived(outer.path(), 300);
    let mut server = start_on(outer.path(), &["--memory", "1mb", "--durability", "commit"]);
    server.kill().unwrap();
    server.restart().unwrap();
    assert!(server.stop().unwrap().success());
    assert_eq!(report_line(&sound(outer.path()), "keys"), "300");
}

#[test]
fn a_backup_of_a_running_server_is_a_database() {
    let outer = dir();
    let (data, copy) = (outer.path().join("data"), outer.path().join("deep/copy"));
    fill(&data, Some(2), 500);
    let server = start_on(&data, &[]);
    let (code, stdout, stderr) = backup(&server, &copy, &[]);
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    assert!(stdout.starts_with(&format!("backup in {}: revisions ", copy.display())), "{stdout}");
    assert_eq!(stdout.matches('\n').count(), 1, "{stdout}");

    let report = sound(&copy);
    assert_eq!((report_line(&report, "keys"), report_line(&report, "shards")), ("500".into(), "2".into()));
    assert!(start_on(&copy, &[]).stop().unwrap().success(), "beside the original");
    assert_eq!(report_line(&sound(&copy), "keys"), "500");

    let line = only_line(1, &backup(&server, &copy, &[]));
    assert!(line.contains("refused: ") && line.contains("is not empty"), "{line}");

    let archive = copy.join("shard-0/archive.sqlite");
    damage(&archive, fs::metadata(&archive).unwrap().len() / 2);
    let (code, stdout, stderr) = check(&copy);
    assert_eq!((code, stderr.as_str()), (1, ""), "{stdout}");
    assert!(stdout.contains("\n  problem     shard 0: ") && stdout.ends_with("not sound\n"), "{stdout}");
}

#[test]
fn a_relative_directory_is_taken_from_where_the_command_runs() {
    let outer = dir();
    let server = start(&[]);
    let address = server.http().unwrap().to_string();
    let (code, stdout, stderr) = run_in(outer.path(), &["backup", "copy", "--http", &address], &[]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("/copy: revision 0, "), "{stdout}");
    assert_eq!(report_line(&sound(&outer.path().join("copy")), "keys"), "0");
}

#[test]
fn a_backup_needs_the_token() {
    let outer = dir();
    let server = start(&["--token", "s3cret"]);
    for variables in [&[][..], &[("KEYSTEAD_TOKEN", "wrong")]] {
        let line = only_line(1, &backup(&server, &outer.path().join("copy"), variables));
        assert!(line.contains("wants its token") && line.contains("KEYSTEAD_TOKEN"), "{line}");
    }
    assert!(!outer.path().join("copy").exists());
    let (code, _, stderr) = backup(&server, &outer.path().join("copy"), &[("KEYSTEAD_TOKEN", "s3cret")]);
    assert_eq!(code, 0, "{stderr}");
    assert!(!server.logs().contains("s3cret"));
}

#[test]
fn a_backup_that_cannot_be_says_why_in_one_line() {
    let outer = dir();
    let copy = outer.path().join("copy");
    let memory = start(&["--durability", "memory"]);
    let line = only_line(1, &backup(&memory, &copy, &[]));
    assert!(line.contains("a database in memory has nothing to copy"), "{line}");
    let line = only_line(1, &backup(&start(&[]), Path::new("/proc/copy"), &[]));
    assert!(line.contains("/proc/copy"), "{line}");
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for (arguments, code, words) in [
        (&["backup", "d", "--http", &unused][..], 1, "no server answers at 127.0.0.1:"),
        (&["backup", "d", "--http", "off"], 2, "--http off is not an address to connect to"),
        (&["backup", "d", "--http", "127.0.0.1:0"], 2, "is not an address to connect to"),
        (&["backup"], 2, "DIR is missing"),
        (&["backup", ""], 2, "DIR is empty"),
        (&["backup", "a", "b"], 2, "unexpected argument 'b'"),
    ] {
        let line = only_line(code, &run(arguments));
        assert!(line.contains(words), "{line}");
    }
}

#[test]
fn a_check_of_what_is_no_database_cannot_run() {
    let outer = dir();
    let missing = outer.path().join("missing");
    for arguments in [&["check", text(&missing)][..], &["check", text(outer.path())]] {
        let line = only_line(2, &run(arguments));
        assert!(line.contains("there is no database here"), "{line}");
    }
    assert!(!missing.exists() && fs::read_dir(outer.path()).unwrap().next().is_none(), "nothing is created");
    assert!(only_line(2, &run(&["check"])).contains("DIR is missing"));
}

#[test]
fn the_admin_route_takes_declared_json_with_an_absolute_path_only() {
    let server = start(&["--durability", "memory"]);
    for (kind, body, words) in [
        ("text/plain", r#"{"dir":"/tmp/x"}"#, "not declared as JSON"),
        ("application/json", r#"{"dir":"x"}"#, "not an absolute path"),
        ("application/json", "", "not JSON"),
    ] {
        let mut client = Client::connect(&server);
        let length = body.len();
        client.send(&format!(
            "POST /admin/backup HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
        ));
        let reply = client.receive("POST");
        assert_eq!(reply.status, 400);
        assert!(reply.body.contains(words), "{}", reply.body);
    }
}

#[test]
fn durability_memory_leaves_no_file() {
    let outer = dir();
    let data: PathBuf = outer.path().join("data");
    let mut server = start_on(&data, &["--durability", "memory", "--shards", "2"]);
    let metrics = get(&server, "/metrics").body;
    assert!(metrics.contains(r#"keystead_journal_bytes{shard="1"} 0"#), "{metrics}");
    assert!(server.stop().unwrap().success());
    assert!(!data.exists() && fs::read_dir(server.dir()).unwrap().next().is_none());
}
