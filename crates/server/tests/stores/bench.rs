//! `keystead store bench`: a row for each load, and nothing is left behind.

use crate::{own, run};
use keystead_testkit::servers::redis;

#[test]
fn bench_prints_a_row_for_each_load() {
    let server = own(&redis::REDIS);
    let on_redis =
        server.as_ref().map(|server| format!("redis://:@{}?deadline=40s", server.site().addresses()));
    for url in on_redis.into_iter().chain(["memory:".to_owned()]) {
        let (code, stdout, stderr) = run("", &["store", "bench", &url, "--seconds", "1"]);
        assert_eq!(code, 0, "{stdout}{stderr}");
        let rows: Vec<Vec<&str>> =
            stdout.lines().skip(2).take(4).map(|row| row.split_whitespace().collect()).collect();
        let loads: Vec<(&str, &str)> = rows.iter().map(|row| (row[0], row[1])).collect();
        assert_eq!(loads, [("1", "1"), ("32", "1"), ("1", "10000"), ("32", "10000")], "{stdout}");
        for row in &rows {
            let [p50, p99, p999] = [3, 4, 5].map(|i| row[i].parse::<f64>().unwrap());
            assert!(row[2].parse::<f64>().unwrap() > 0.0 && p50 <= p99 && p99 <= p999, "{row:?}");
        }
        let removed = if url == "memory:" { "removed 0 keys" } else { "removed 10000 keys" };
        assert_eq!(stdout.lines().last(), Some(removed), "{stdout}");
    }
}
