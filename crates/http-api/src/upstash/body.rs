//! Commands in a JSON body: one array, or an array of arrays. Pure.
//!
//! Strings, numbers and booleans are arguments; a number keeps the text that was sent, so no digits are lost.

use std::fmt;

use keystead_commands::Command;
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::bounds::REST_COMMANDS_MAX;

/// Why a body is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyError(
    /// The text of the reply.
    pub &'static str,
);

const NO_COMMAND: BodyError = BodyError("ERR failed to parse command");
const EMPTY_COMMAND: BodyError = BodyError("ERR empty command");
const NO_PIPELINE: BodyError = BodyError("ERR failed to parse pipeline request");
const EMPTY_PIPELINE: BodyError = BodyError("ERR empty pipeline request");
const TOO_MANY: BodyError = BodyError("ERR too many commands in one request");

/// Reads `["SET","k",1]`.
///
/// # Errors
/// When it is anything else.
pub fn command(body: &[u8]) -> Result<Command, BodyError> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let command = Arguments.deserialize(&mut json).and_then(|command| json.end().map(|()| command));
    match command {
        Ok(command) if command.args().is_empty() => Err(EMPTY_COMMAND),
        Ok(command) => Ok(command),
        Err(_) => Err(NO_COMMAND),
    }
}

/// Reads `[["SET","k",1],["GET","k"]]`. A command may be empty.
///
/// # Errors
/// When it is anything else, or has too many commands.
pub fn commands(body: &[u8]) -> Result<Vec<Command>, BodyError> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let commands = Commands.deserialize(&mut json).and_then(|commands| json.end().map(|()| commands));
    match commands {
        Ok(commands) if commands.is_empty() => Err(EMPTY_PIPELINE),
        Ok(commands) if commands.len() > REST_COMMANDS_MAX => Err(TOO_MANY),
        Ok(commands) => Ok(commands),
        Err(_) => Err(NO_PIPELINE),
    }
}

/// An array of arguments.
struct Arguments;

impl<'de> DeserializeSeed<'de> for Arguments {
    type Value = Command;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Command, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Arguments {
    type Value = Command;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of arguments")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Command, A::Error> {
        let mut command = Command::default();
        while let Some(raw) = seq.next_element::<&RawValue>()? {
            push(&mut command, raw.get()).map_err(A::Error::custom)?;
        }
        Ok(command)
    }
}

/// Adds an argument by its JSON text.
fn push(command: &mut Command, text: &str) -> Result<(), &'static str> {
    match text.as_bytes() {
        // Most strings contain no escapes.
        [b'"', plain @ .., b'"'] if !plain.contains(&b'\\') => command.push(plain),
        [b'"', ..] => {
            let unescaped: String = serde_json::from_str(text).map_err(|_| "not a string")?;
            command.push(unescaped.as_bytes());
        }
        [b'n' | b'{' | b'[', ..] => return Err("an argument is a string, a number or a boolean"),
        literal => command.push(literal),
    }
    Ok(())
}

/// An array of commands.
struct Commands;

impl<'de> DeserializeSeed<'de> for Commands {
    type Value = Vec<Command>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Command>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Commands {
    type Value = Vec<Command>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of commands")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<Command>, A::Error> {
        let mut commands = Vec::new();
        while let Some(command) = seq.next_element_seed(Arguments)? {
            // One more than the bound shows that there are too many; the rest is read and dropped.
            if commands.len() <= REST_COMMANDS_MAX {
                commands.push(command);
            }
        }
        Ok(commands)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(command: &Command) -> Vec<String> {
        command.args().from(0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
    }

    #[test]
    fn arguments_keep_their_text() {
        let body =
            r#" ["set", "k\n\u00e9\ud83d\ude00", 1.0, -0, 12345678901234567890123, 1E400, true, false, ""] "#;
        let command = command(body.as_bytes()).unwrap();
        let long = "12345678901234567890123";
        assert_eq!(words(&command), ["set", "k\né😀", "1.0", "-0", long, "1E400", "true", "false", ""]);
    }

    #[test]
    fn an_invalid_command_is_an_error() {
        for body in [
            "",
            " ",
            "x",
            "{}",
            "null",
            "\"GET\"",
            "7",
            "[\"GET\"",
            "[\"GET\",]",
            "[\"GET\",null]",
            "[\"GET\",{\"a\":1}]",
            "[\"GET\",[\"k\"]]",
            "[\"GET\",\"k\"] x",
            "[\"\\ud800\"]",
            "[\"\\x\"]",
            "[01]",
            "[\"a\nb\"]",
            "\u{feff}[\"GET\"]",
            "[NaN]",
        ] {
            assert_eq!(command(body.as_bytes()), Err(NO_COMMAND), "{body}");
        }
        assert_eq!(command(b"[\"GET\",\"\xff\"]"), Err(NO_COMMAND));
        assert_eq!(command(b"[]"), Err(EMPTY_COMMAND));
        let deep = "[".repeat(1_000_000);
        assert_eq!(command(deep.as_bytes()), Err(NO_COMMAND));
        assert_eq!(commands(deep.as_bytes()), Err(NO_PIPELINE));
    }

    #[test]
    fn pipelines_are_arrays_of_arrays() {
        let all = commands(br#"[["PING"],[],["GET",1]]"#).unwrap();
        assert_eq!(all.iter().map(words).collect::<Vec<_>>(), [vec!["PING"], vec![], vec!["GET", "1"]]);
        assert_eq!(commands(b"[]"), Err(EMPTY_PIPELINE));
        for body in ["", "{}", "[\"GET\",\"k\"]", "[[\"GET\"],null]", "[[[\"GET\"]]]", "[[\"GET\"]"] {
            assert_eq!(commands(body.as_bytes()), Err(NO_PIPELINE), "{body}");
        }
        let many = format!("[{}[\"PING\"]]", "[],".repeat(REST_COMMANDS_MAX));
        assert_eq!(commands(many.as_bytes()), Err(TOO_MANY));
    }

    proptest! {
        #[test]
        fn any_strings_are_kept(strings in prop::collection::vec(".*", 1..6)) {
            let body = serde_json::to_vec(&strings).unwrap();
            prop_assert_eq!(words(&command(&body).unwrap()), strings);
        }

        #[test]
        fn no_bytes_panic(body: Vec<u8>) {
            let _ = (command(&body), commands(&body));
        }

        /// Nearly valid bodies get further than random bytes.
        #[test]
        fn no_cut_or_changed_body_panics(at in 0usize..40, byte: u8, cut: bool) {
            let mut body = br#"[["SET","k\n\u00e9",1.5e3,true],["GET","k"]]"#.to_vec();
            let at = at.min(body.len() - 1);
            if cut { body.truncate(at) } else { body[at] = byte }
            let _ = (command(&body), commands(&body));
        }
    }
}
