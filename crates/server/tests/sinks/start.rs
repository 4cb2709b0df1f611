//! Settings that do not fit, routes, and `keystead sink`.

use serde_json::json;

use crate::{File, Fixture, Target, common, configure};

/// The error line of a server that does not start.
pub(crate) fn error_of(target: &dyn Target, more: &str, arguments: &[&str]) -> String {
    let home = common::dir();
    configure(home.path(), target, more);
    let (code, _, stderr) = common::run_in(home.path(), arguments, &[]);
    assert_eq!(code, 2, "{stderr}");
    stderr.lines().find(|line| line.starts_with("keystead: ")).unwrap_or(&stderr).to_owned()
}

#[test]
fn a_sink_that_does_not_fit_its_target_keeps_the_server_from_starting() {
    let home = common::dir();
    let file = File::new(home.path());
    for (more, arguments, words) in [
        (
            "value = \"vlaue\"",
            &[][..],
            "keystead.toml:1: sink.s: the table t has no column vlaue, only key, value",
        ),
        ("columns = { nme = \"name\" }", &[], "the table t has no column nme"),
        ("colour = 1", &[], "unknown key 'colour'"),
        ("", &["--durability", "memory"], "a sink needs a journal to follow"),
    ] {
        let error = error_of(&file, more, arguments);
        assert!(error.contains(words), "{error}");
    }
    file.sql("DROP TABLE t");
    let error = error_of(&file, "", &[]);
    let (_, create) = error.split_once("create it with ").unwrap();
    file.sql(create.trim());
    let fixture = Fixture::start(&file, "flushEvery = \"10ms\"", &[]);
    fixture.http().put("d:1", &json!(1), "?flushed=20s");
    assert_eq!(file.sql("SELECT key, value FROM t"), "d:1|1");
    struct Missing;
    impl Target for Missing {
        fn url(&self) -> String {
            "sqlite:/nowhere/t.db".to_owned()
        }
        fn sql(&self, _: &str) -> String {
            String::new()
        }
    }
    let error = error_of(&Missing, "", &[]);
    assert!(
        error.contains("cannot open /nowhere/t.db") && error.contains("create it with its table first"),
        "{error}"
    );
}

#[test]
fn the_command_line_shows_and_repairs_a_sink() {
    let home = common::dir();
    let file = File::new(home.path());
    let fixture = Fixture::start(&file, "flushEvery = \"1h\"", &[]);
    let mut http = fixture.http();
    let address = fixture.server.http().unwrap().to_string();
    let run = |words: &[&str]| {
        common::run_in(home.path(), &[&["sink"], words, &["--http", &address]].concat(), &[])
    };
    http.put("d:1", &json!(1), "");
    let (code, flushed, error) = run(&["flush", "s"]);
    assert_eq!(code, 0, "{error}");
    assert!(flushed.starts_with("s  write-back to t (sqlite): 0 pending"), "{flushed}");
    assert_eq!(run(&["list"]).1, flushed);
    assert_eq!(run(&["verify", "s"]).1, "1 keys, no differences\n");
    file.sql("UPDATE t SET value = '2'");
    file.sql("INSERT INTO t VALUES ('d:2', '1', 1, 1)");
    let (code, text, _) = run(&["verify", "s"]);
    let differences = "1 keys, 2 differences, 0 of them in quarantine\n\
        \x20 d:1  source: version 1, 1; target: version 1, 2\n\
        \x20 d:2  source: absent; target: version 1, 1\n";
    assert_eq!((code, text.as_str()), (1, differences));
    // A long value is cut.
    let long = "x".repeat(10_000);
    http.put("d:3", &json!(long), "");
    http.flush();
    file.sql("DELETE FROM t WHERE key = 'd:3'");
    let (_, text, _) = run(&["verify", "s"]);
    let line = text.lines().find(|line| line.starts_with("  d:3")).unwrap();
    assert!(line.len() < 300 && line.ends_with("xxx...; target: absent"), "{line}");
    assert_eq!(run(&["resync", "s"]).0, 0);
    crate::until("all keys are written", || run(&["verify", "s"]).0 == 0);
    http.run(&json!([["XADD", "d:stream", "*", "f", "v"]]));
    run(&["flush", "s"]);
    let (_, exported, _) = run(&["export", "s"]);
    assert!(exported.starts_with("{") && exported.contains("\"key\":\"d:stream\""), "{exported}");
    assert_eq!(run(&["retry", "s", "d:stream"]).1, "1 keys\n");
    assert_eq!(run(&["skip", "s"]).1, "1 keys\n");
    let (code, _, error) = run(&["flush", "nobody"]);
    assert_eq!(code, 1);
    assert!(error.contains("there is no sink 'nobody': s"), "{error}");
    assert_eq!(run(&["flush"]).0, 2);
}
