//! The policies of these tests, and what they send and compare.

use serde_json::Value;

use crate::client::{Http, Response};

/// Policies of several kinds, on every store that needs no other server.
pub(crate) const POLICIES: &str = r#"
[limit.login]
limit = 3
periodMs = "1h"
fail = "closed"

[limit.window]
kind = "fixedWindow"
limit = 50
windowMs = "1d"
fail = "closed"

[limit.memory]
kind = "tokenBucket"
capacity = 50
refillPerSec = 0.001
fail = "closed"
store = "memory"
headers = ["plain", "structured", "legacy"]

[limit.aside]
kind = "quota"
limit = 50
resetCadence = "calendar-month"
fail = "open"
store = "sqlite:aside?durability=commit&shards=2"

[limit.jobs]
kind = "concurrency"
limit = 2
leaseMs = "1h"
fail = "closed"

[limit.flow]
kind = "leakyBucket"
ratePerSec = 1
maxQueueMs = "2s"
fail = "closed"
"#;

impl Http {
    /// The response to one check of a key.
    #[track_caller]
    pub(crate) fn check(&mut self, policy: &str, body: &str) -> Value {
        let response = self.post(&format!("/limit/{policy}"), body);
        assert_eq!(response.status, 200, "{}", response.text());
        response.json()
    }
}

impl Response {
    #[track_caller]
    pub(crate) fn is_error(&self, status: u16, code: &str, words: &str) {
        assert_eq!(self.status, status, "{}", self.text());
        let error = &self.json()["error"];
        assert_eq!(error["code"], code, "{}", self.text());
        assert!(error["message"].as_str().unwrap().contains(words), "{}", self.text());
    }
}
