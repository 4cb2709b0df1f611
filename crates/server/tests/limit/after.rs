//! What follows a check: leases are released, reservations are settled.

use serde_json::{Value, json};

use crate::Fixture;
use crate::client::Http;

pub(crate) fn acquire(http: &mut Http, body: &str) -> Value {
    let response = http.post("/limit/jobs/acquire", body);
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()
}

pub(crate) fn release(http: &mut Http, lease: &Value) -> Value {
    let response =
        http.post("/limit/jobs/release", &json!({ "key": "export", "leaseId": lease }).to_string());
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()["released"].clone()
}

#[test]
fn so_many_at_a_time_and_a_slot_is_freed_exactly_once() {
    let (_fixture, mut http) = Fixture::open(&[]);
    let first = acquire(&mut http, r#"{"key":"export"}"#)["leaseId"].clone();
    let second = acquire(&mut http, r#"{"key":"export"}"#)["leaseId"].clone();
    assert_ne!(first, second);
    let denied = acquire(&mut http, r#"{"key":"export"}"#);
    assert_eq!((&denied["allowed"], &denied["leaseId"]), (&json!(false), &Value::Null));
    let renewed = acquire(&mut http, &json!({ "key": "export", "leaseId": first }).to_string());
    assert_eq!((&renewed["allowed"], &renewed["leaseId"]), (&json!(true), &first), "its own slot");
    assert_eq!(release(&mut http, &first), true);
    assert_eq!(release(&mut http, &first), false, "once");
    assert_eq!(acquire(&mut http, r#"{"key":"export"}"#)["allowed"], true);
    assert_eq!(acquire(&mut http, r#"{"key":"export"}"#)["allowed"], false);
    http.post("/limit/login/acquire", r#"{"key":"a"}"#).is_error(
        400,
        "bad_request",
        "a gcra policy has no leases",
    );
    http.post("/limit/jobs/release", r#"{"key":"a","leaseId":0}"#).is_error(400, "bad_request", "an id is");
}

pub(crate) fn settle(http: &mut Http, policy: &str, id: &Value, cost: u64) -> crate::client::Response {
    http.post(
        &format!("/limit/{policy}/settle"),
        &json!({ "key": "ada", "id": id, "cost": cost }).to_string(),
    )
}

pub(crate) fn left(http: &mut Http, policy: &str) -> u64 {
    http.get(&format!("/limit/{policy}/ada")).json()["remaining"].as_u64().unwrap()
}

#[test]
fn an_estimate_is_settled_once_at_its_actual_cost_on_every_store() {
    for shards in ["1", "4"] {
        let (_fixture, mut http) = Fixture::open(&["--shards", shards]);
        for policy in ["window", "memory", "aside"] {
            let reserve = format!("/limit/{policy}/reserve");
            let response = http.post(&reserve, r#"{"key":"ada","cost":40}"#).json();
            assert_eq!(
                (&response["allowed"], &response["remaining"], &response["reservation"]["cost"]),
                (&json!(true), &json!(10), &json!(40))
            );
            let id = &response["reservation"]["id"];
            let denied = http.post(&format!("{reserve}?status=429"), r#"{"key":"ada","cost":11}"#);
            assert_eq!((denied.status, &denied.json()["reservation"]), (429, &Value::Null));
            let settled = settle(&mut http, policy, id, 15);
            assert_eq!(
                (settled.status, &settled.json()["remaining"], &settled.json()["settled"]),
                (200, &json!(35), &json!(15))
            );
            settle(&mut http, policy, id, 15).is_error(404, "not_found", "there is no such reservation");
            assert_eq!(left(&mut http, policy), 35, "{policy}");
            // More than was estimated, and more than is left: the next request is denied.
            let response = http.post(&reserve, r#"{"key":"ada","cost":1,"ttlMs":60000}"#).json();
            let settled = settle(&mut http, policy, &response["reservation"]["id"], 60).json();
            assert_eq!((&settled["allowed"], &settled["remaining"]), (&json!(false), &json!(0)), "{policy}");
            assert_eq!(http.check(policy, r#"{"key":"ada"}"#)["allowed"], false);
        }
    }
}

#[test]
fn an_unsettled_reservation_expires_and_its_estimate_stays_consumed() {
    let (_fixture, mut http) = Fixture::open(&[]);
    for policy in ["window", "memory"] {
        let response =
            http.post(&format!("/limit/{policy}/reserve"), r#"{"key":"ada","cost":40,"ttlMs":1}"#).json();
        crate::resp::pause(20);
        settle(&mut http, policy, &response["reservation"]["id"], 0).is_error(
            404,
            "not_found",
            "has expired",
        );
        assert_eq!(left(&mut http, policy), 10);
    }
}
