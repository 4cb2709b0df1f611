//! Recorded requests, one per line: `{"now":1700000000000,"key":"ada","cost":1}`. Touches nothing but its input.

use std::io::{BufRead, Read};

use keystead_core::{Code, Error};
use serde::Deserialize;

use super::{Stop, without_bom};
use crate::bounds::REPLAY_LINE_BYTES_MAX;
use crate::written::{self, KeyText, Object};

/// One recorded request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request<'a> {
    #[serde(deserialize_with = "written::whole")]
    pub(super) now: u64,
    #[serde(borrow)]
    pub(super) key: KeyText<'a>,
    #[serde(default, deserialize_with = "written::whole_or_none")]
    cost: Option<u64>,
}

impl Request<'_> {
    pub(super) fn cost(&self) -> u64 {
        self.cost.unwrap_or(1)
    }
}

/// Calls `run` with each request and the number of its line. Empty lines are skipped.
pub(super) fn each(
    mut input: impl BufRead,
    mut run: impl FnMut(u64, &Request<'_>) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let mut limited = (&mut input).take(REPLAY_LINE_BYTES_MAX as u64 + 1);
        let read = limited.read_until(b'\n', &mut line);
        if read.map_err(|error| bad(number, &error.to_string()))? == 0 {
            break;
        }
        if line.len() > REPLAY_LINE_BYTES_MAX {
            return Err(bad(number, &format!("it has more than {REPLAY_LINE_BYTES_MAX} bytes")));
        }
        let text = if number == 1 { without_bom(&line) } else { &line };
        if text.trim_ascii().is_empty() {
            continue;
        }
        let Object(request) =
            serde_json::from_slice(text).map_err(|error| bad(number, &error.to_string()))?;
        run(number, &request)?;
    }
    Ok(())
}

pub(super) fn bad(number: u64, why: &str) -> Stop {
    let words = format!(
        "line {number} of the input: {why}: write lines like {{\"now\":1700000000000,\"key\":\"ada\",\"cost\":1}}"
    );
    Stop::Input(Error::new(Code::ConfigInvalid, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(input: &[u8]) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        let read = each(input, |_, request| {
            keys.push(request.key.0.to_vec());
            Ok(())
        });
        assert!(read.is_ok());
        keys
    }

    #[test]
    fn a_key_is_text_or_bytes_and_a_byte_order_mark_is_skipped() {
        let input = "\u{feff}{\"now\":1,\"key\":\"a\\u00e9\"}\n{\"now\":1,\"key\":{\"base64\":\"/w==\"}}\n";
        assert_eq!(keys(input.as_bytes()), ["aé".as_bytes(), b"\xff"]);
        assert_eq!(keys("\u{feff}\n".as_bytes()), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn a_byte_order_mark_elsewhere_and_keys_of_other_forms_are_rejected() {
        for (input, why) in [
            (
                "{\"now\":1,\"key\":\"a\"}\n\u{feff}{\"now\":1,\"key\":\"a\"}",
                "line 2 of the input: expected value",
            ),
            ("{\"now\":1,\"key\":1}", "expected a key: text, or {\"base64\":\"...\"}"),
            ("{\"now\":1,\"key\":{\"base64\":\"?\"}}", "a key that is an object is {\"base64\":\"...\"}"),
            ("{\"now\":1,\"key\":{\"base64\":\"/w==\",\"x\":\"1\"}}", "a key that is an object is"),
        ] {
            let Err(Stop::Input(error)) = each(input.as_bytes(), |_, _| Ok(())) else {
                panic!("{input} was accepted");
            };
            assert!(error.message().contains(why), "{error}");
        }
    }
}
