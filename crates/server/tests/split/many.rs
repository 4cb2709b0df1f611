//! Two compute services on the same keys.

use std::thread;

use serde_json::json;

use super::{client::Http, compute, run, storage};

#[test]
fn two_hundred_increments_through_two_processes_are_two_hundred() {
    let storage = storage(&[]);
    let services = [compute(&storage), compute(&storage)];
    thread::scope(|scope| {
        for n in 0..20 {
            let service = &services[n % 2];
            scope.spawn(move || {
                let mut http = Http::connect(service);
                for _ in 0..10 {
                    run(&mut http, &["INCR", "shared"]);
                    let transaction = json!([["HINCRBY", "hash", "f", 1], ["RPUSH", "list", n]]);
                    assert_eq!(http.post("/multi-exec", &transaction.to_string()).status, 200);
                    run(&mut http, &["SET", &format!("own:{n}"), "v"]);
                }
            });
        }
    });
    for service in &services {
        let mut http = Http::connect(service);
        assert_eq!(run(&mut http, &["GET", "shared"]), "200");
        assert_eq!(run(&mut http, &["HGET", "hash", "f"]), "200");
        assert_eq!(run(&mut http, &["LLEN", "list"]), 200);
        assert_eq!(run(&mut http, &["DBSIZE"]), 23);
    }
}

#[test]
fn a_condition_holds_for_one_of_many() {
    let storage = storage(&[]);
    let services = [compute(&storage), compute(&storage)];
    let won = thread::scope(|scope| {
        let tasks: Vec<_> = (0..10)
            .map(|n: usize| {
                let service = &services[n % 2];
                scope.spawn(move || {
                    run(&mut Http::connect(service), &["SET", "lock", &n.to_string(), "NX"]) == "OK"
                })
            })
            .collect();
        tasks.into_iter().map(|task| task.join().unwrap()).filter(|won| *won).count()
    });
    assert_eq!(won, 1);
}
