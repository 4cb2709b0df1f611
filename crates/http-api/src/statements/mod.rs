//! `POST /statements`: what a storage service executes for compute services, and what it answers. Pure.
//!
//! ```text
//! {"statements": [S, ...]}                     one transaction
//! {"pipeline": [{"statements": [...]}, ...]}   several, each of its own
//! {"expect": [E, ...], "statements": [...]}    executed only if every query E has these rows
//!
//! S: {"sql": "SELECT ?1", "params": [1]}       E: S with {"rows": [[1]], "otherwise": [S, ...]}
//! ```
//!
//! An item is answered with `{"results":[{"rows":[...],"changes":0}]}`, or with `{"conflict":[null,{"rows":[...],"otherwise":[...]}]}`: for each
//! expectation that does not hold, the rows that there are, and the results of its `otherwise`, so that the next attempt needs no other
//! request.

mod value;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::bounds::{STATEMENT_PARAMS_MAX, STATEMENTS_MAX};
pub use value::Value;

/// A row.
pub type Row = Vec<Value>;

/// A statement and the values that are bound to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// One statement of SQL.
    pub sql: Cow<'static, str>,
    /// The values of `?1`, `?2` and so on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub params: Row,
}

/// A query, and the rows that it must have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// The query.
    pub sql: Cow<'static, str>,
    /// The values of `?1`, `?2` and so on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub params: Row,
    /// Its rows.
    pub rows: Vec<Row>,
    /// What is executed if it has others. Nothing else of the item is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub otherwise: Vec<Statement>,
}

/// What is executed in one transaction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// What must hold for the statements to be executed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expect: Vec<Expectation>,
    /// The statements, in order.
    #[serde(default)]
    pub statements: Vec<Statement>,
}

impl Item {
    fn statements(&self) -> impl Iterator<Item = usize> {
        let otherwise = self.expect.iter().flat_map(|expectation| &expectation.otherwise);
        let expected = self.expect.iter().map(|expectation| expectation.params.len());
        expected.chain(otherwise.chain(&self.statements).map(|statement| statement.params.len()))
    }
}

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// One item.
    One(Item),
    /// Several.
    Pipeline(Vec<Item>),
}

impl Request {
    /// Its items.
    #[must_use]
    pub fn items(&self) -> &[Item] {
        match self {
            Request::One(item) => std::slice::from_ref(item),
            Request::Pipeline(items) => items,
        }
    }

    /// Reads a body.
    ///
    /// # Errors
    /// What is wrong with it, for the user.
    pub fn parse(body: &[u8]) -> Result<Request, String> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Form {
            #[serde(default)]
            expect: Vec<Expectation>,
            statements: Option<Vec<Statement>>,
            pipeline: Option<Vec<Item>>,
        }
        let form: Form = serde_json::from_slice(body).map_err(|error| {
            format!("the body is not a request of statements ({error}): send {{\"statements\":[{{\"sql\":\"SELECT ?1\",\"params\":[1]}}]}}")
        })?;
        let request = match form {
            Form { expect, statements: Some(statements), pipeline: None } => {
                Request::One(Item { expect, statements })
            }
            Form { expect, statements: None, pipeline: Some(items) } if expect.is_empty() => {
                Request::Pipeline(items)
            }
            _ => return Err("send either statements, with or without expect, or pipeline".to_owned()),
        };
        let (mut count, mut params) = (0, 0);
        for of_one in request.items().iter().flat_map(Item::statements) {
            (count, params) = (count + 1, params.max(of_one));
        }
        match (count, params) {
            (STATEMENTS_MAX.., _) => {
                Err(format!("{count} statements are too many: send fewer than {STATEMENTS_MAX}"))
            }
            (_, STATEMENT_PARAMS_MAX..) => {
                Err(format!("a statement has {params} parameters: send fewer than {STATEMENT_PARAMS_MAX}"))
            }
            _ => Ok(request),
        }
    }
}

/// The result of a statement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rows {
    /// Its rows.
    #[serde(default)]
    pub rows: Vec<Row>,
    /// How many rows it has changed.
    #[serde(default)]
    pub changes: u64,
}

/// An expectation that does not hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Mismatch {
    /// The rows that there are.
    pub rows: Vec<Row>,
    /// The results of its `otherwise`.
    #[serde(default)]
    pub otherwise: Vec<Rows>,
}

/// What became of an item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It was executed: the result of each statement.
    Results(Vec<Rows>),
    /// It was not: for each expectation, nothing if it holds.
    Conflict(Vec<Option<Mismatch>>),
    /// It was not: an error.
    Error(Failure),
}

/// Why an item was not executed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The stable code.
    pub code: String,
    /// What happened, and what to do.
    pub message: String,
    /// `unknown` when it may have been executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
}

/// The response to a pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcomes {
    /// Of each item.
    pub pipeline: Vec<Outcome>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_one_item_or_several() {
        let one = br#"{"expect":[{"sql":"SELECT 1","rows":[[1]],"otherwise":[{"sql":"SELECT 2"}]}],"statements":[{"sql":"SELECT ?1","params":["x"]}]}"#;
        let Ok(Request::One(item)) = Request::parse(one) else { panic!("not one") };
        assert_eq!((item.expect.len(), item.statements[0].params.len()), (1, 1));
        assert_eq!(serde_json::to_vec(&item).unwrap(), one);
        let several = br#"{"pipeline":[{"statements":[]},{"statements":[{"sql":"SELECT 1"}]}]}"#;
        assert_eq!(Request::parse(several).unwrap().items().len(), 2);
    }

    #[test]
    fn other_bodies_are_errors_that_say_what_to_send() {
        for body in [
            "",
            "[]",
            "{}",
            r#"{"statement":[]}"#,
            r#"{"statements":["SELECT 1"]}"#,
            r#"{"statements":[],"pipeline":[]}"#,
            r#"{"expect":[],"pipeline":[{}],"x":1}"#,
            r#"{"expect":[{"sql":"SELECT 1","rows":[]}],"pipeline":[]}"#,
            r#"{"statements":[{"sql":"SELECT ?1","params":[true]}]}"#,
            r#"{"expect":[{"sql":"SELECT 1"}],"statements":[]}"#,
        ] {
            let error = Request::parse(body.as_bytes()).unwrap_err();
            assert!(error.contains("send"), "{body}: {error}");
        }
    }

    #[test]
    fn statements_and_parameters_are_bounded() {
        let many = format!(r#"{{"statements":[{}{{"sql":""}}]}}"#, r#"{"sql":""},"#.repeat(STATEMENTS_MAX));
        assert!(Request::parse(many.as_bytes()).unwrap_err().contains("too many"));
        let wide =
            format!(r#"{{"statements":[{{"sql":"","params":[{}0]}}]}}"#, "0,".repeat(STATEMENT_PARAMS_MAX));
        assert!(Request::parse(wide.as_bytes()).unwrap_err().contains("parameters"));
    }

    #[test]
    fn outcomes_have_stable_forms() {
        let rows = vec![Rows { rows: vec![vec![Value::Int(1)]], changes: 2 }];
        for (outcome, json) in [
            (Outcome::Results(rows.clone()), r#"{"results":[{"rows":[[1]],"changes":2}]}"#),
            (
                Outcome::Conflict(vec![None, Some(Mismatch { rows: Vec::new(), otherwise: rows })]),
                r#"{"conflict":[null,{"rows":[],"otherwise":[{"rows":[[1]],"changes":2}]}]}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&outcome).unwrap(), json);
            assert_eq!(serde_json::from_str::<Outcome>(json).unwrap(), outcome);
        }
    }
}
