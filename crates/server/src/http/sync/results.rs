//! The response of `POST /sync`: what became of each mutation. Pure.

use keystead_commands::bounds::SYNC_SKEW_MS_MAX;
use keystead_commands::sync::{Outcome, Status, Winner};
use keystead_core::Millis;
use serde_json::{Map, Value, json};

use crate::bounds::SYNC_WINNER_BYTES_MAX;

/// The response to items with these ids.
pub(super) fn body(ids: &[u64], outcomes: Vec<Outcome>, client_ts: Option<u64>, now: Millis) -> Value {
    let settled = outcomes.iter().take_while(|outcome| outcome.settled.is_final()).count();
    // Everything up to this one is settled.
    let last = settled.checked_sub(1).map(|last| ids[last]);
    let results: Vec<Value> = ids.iter().zip(outcomes).map(|(id, outcome)| result(*id, outcome)).collect();
    let mut body = json!({ "results": results, "lastId": last, "server_ts": now.0 });
    if let Some(client_ts) = client_ts {
        let skew_ms = i128::from(client_ts) - i128::from(now.0);
        if skew_ms.unsigned_abs() > u128::from(SYNC_SKEW_MS_MAX) {
            body["skew_ms"] = json!(skew_ms as i64);
        }
    }
    body
}

fn result(id: u64, outcome: Outcome) -> Value {
    let Outcome { settled, again, winner } = outcome;
    let mut result = Map::new();
    result.insert("id".to_owned(), json!(id));
    result.insert("status".to_owned(), json!(settled.status.as_str()));
    if matches!(settled.status, Status::Applied | Status::Stale | Status::Conflict) {
        result.insert("version".to_owned(), json!(settled.version));
    }
    if let Some(ts) = settled.ts {
        result.insert("ts".to_owned(), json!(ts));
    }
    for (name, is_so) in [("clamped", settled.clamped), ("again", again)] {
        if is_so {
            result.insert(name.to_owned(), json!(true));
        }
    }
    if !settled.lost.is_empty() {
        result.insert("lost".to_owned(), json!(settled.lost));
    }
    if let Some(winner) = winner {
        result.insert("winner".to_owned(), shown(winner));
    }
    if let Some(error) = settled.error {
        let mut shown = json!({ "code": error.code, "message": error.message });
        if let Some(last_id) = error.last_id {
            shown["lastId"] = json!(last_id);
        }
        result.insert("error".to_owned(), shown);
    }
    Value::Object(result)
}

/// The current state; without a value that is large, which the client reads by itself.
fn shown(winner: Winner) -> Value {
    let mut shown = Map::new();
    match winner.value {
        Some(value) if value.to_string().len() > SYNC_WINNER_BYTES_MAX => {
            shown.insert("omitted".to_owned(), json!(true));
        }
        Some(value) => drop(shown.insert("value".to_owned(), value)),
        None => drop(shown.insert("deleted".to_owned(), json!(true))),
    }
    shown.insert("version".to_owned(), json!(winner.version));
    if let Some(stamp) = winner.stamp {
        shown.insert("ts".to_owned(), json!(stamp.ms));
        if !stamp.client.is_empty() {
            shown.insert("client".to_owned(), json!(stamp.client));
        }
    }
    Value::Object(shown)
}
