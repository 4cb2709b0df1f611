//! What these tests send and compare.

use serde_json::Value;

use crate::client::{Http, Response};

impl Http {
    #[track_caller]
    pub(crate) fn put(&mut self, target: &str, body: &str) -> Response {
        self.ask("PUT", target, &[], body.as_bytes())
    }

    #[track_caller]
    pub(crate) fn patch(&mut self, target: &str, media: &str, body: &str) -> Response {
        self.ask("PATCH", target, &[&format!("Content-Type: {media}")], body.as_bytes())
    }

    #[track_caller]
    pub(crate) fn delete(&mut self, target: &str) -> Response {
        self.ask("DELETE", target, &[], b"")
    }

    /// The version of a document, 0 where there is none.
    #[track_caller]
    pub(crate) fn version(&mut self, target: &str) -> u64 {
        let response = self.get(target);
        if response.status == 404 { 0 } else { response.json()["version"].as_u64().unwrap() }
    }
}

impl Response {
    /// Compares the whole response.
    #[track_caller]
    pub(crate) fn is(&self, status: u16, body: &str) {
        assert_eq!((self.status, self.text().trim_end()), (status, body));
    }

    /// The error object of a response with this status and code.
    #[track_caller]
    pub(crate) fn expect_error(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        let error = self.json()["error"].take();
        assert_eq!(error["code"], code, "{error}");
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{error}");
        error
    }
}
