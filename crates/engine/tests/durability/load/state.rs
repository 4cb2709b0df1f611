//! The state of a group: every key of it with version, expiry and content, as one text, and the text's digest.

use std::fmt::Write;

use keystead_core::{Error, Millis, Result};
use keystead_engine::Engine;
use keystead_model::keyspace::Keyspace;
use keystead_model::value::Value;

use super::ops::{NAMES, key};

/// The state of a group.
#[derive(Clone, Debug)]
pub(crate) struct GroupState {
    pub(crate) text: String,
    /// The highest revision of its keys.
    pub(crate) revision: u64,
}

impl GroupState {
    pub(crate) fn digest(&self) -> u64 {
        digest(self.text.as_bytes())
    }
}

/// Reads a group through the engine, that is through the output gate.
pub(crate) async fn read_state(engine: &Engine, group: u32) -> Result<GroupState> {
    engine.read(&key(group, ""), move |keyspace, now| state_of(keyspace, group, now)).await
}

/// Reads a group.
pub(crate) fn state_of(keyspace: &mut Keyspace, group: u32, now: Millis) -> Result<GroupState> {
    let mut seen = GroupState { text: String::new(), revision: 0 };
    for name in NAMES {
        let name_bytes = key(group, name);
        let Some(meta) = keyspace.meta(&name_bytes, now)? else { continue };
        let Some(value) = keyspace.value(&name_bytes, now)? else { continue };
        let content = content(value)?;
        let _ = writeln!(seen.text, "{name} v{} e{} {content}", meta.version, meta.expires_at.0);
        seen.revision = seen.revision.max(meta.revision.0);
    }
    Ok(seen)
}

fn content(value: &Value) -> Result<String, Error> {
    let words = |items: Vec<String>| items.join(" ");
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(match value {
        Value::Str(bytes) => format!("{} bytes {:016x}", bytes.len(), digest(bytes)),
        Value::State(cell) => cell.text()?.into_owned(),
        Value::List(list) => words(list.iter().map(|(_, item)| shown(item)).collect()),
        Value::Hash(hash) => {
            let mut fields: Vec<String> =
                hash.iter().map(|(field, value)| format!("{}={}", shown(field), shown(value))).collect();
            fields.sort();
            words(fields)
        }
        Value::Set(set) => {
            let mut members: Vec<String> = set.iter().map(shown).collect();
            members.sort();
            words(members)
        }
        other => format!("{other:?}"),
    })
}

/// FNV-1a: enough to distinguish texts that differ by accident.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}
