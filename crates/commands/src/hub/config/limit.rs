//! client-output-buffer-limit: how many bytes may be pending for a slow reader. It touches nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Kind;
use super::kind::bytes;

/// How many bytes may be pending for one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimit {
    /// More than this closes it at once; 0: no limit.
    pub hard_bytes: u64,
    /// More than this for so many seconds closes it; 0: no limit.
    pub soft_bytes: u64,
    /// See `soft_bytes`.
    pub soft_s: u64,
}

/// The client classes, by their names in the setting.
const CLASSES: [&str; 3] = ["normal", "slave", "pubsub"];

/// The limits of all classes.
#[derive(Default)]
pub(super) struct Limits([[AtomicU64; 3]; 3]);

impl Limits {
    pub(super) fn of(&self, kind: Kind) -> OutputLimit {
        let class = &self.0[if kind == Kind::Pubsub { 2 } else { 0 }];
        let [hard_bytes, soft_bytes, soft_s] = class.each_ref().map(|value| value.load(Ordering::Relaxed));
        OutputLimit { hard_bytes, soft_bytes, soft_s }
    }

    /// Applies a value that was parsed before.
    pub(super) fn set(&self, value: &str) {
        let words: Vec<_> = value.split_whitespace().collect();
        for (class, words) in self.0.iter().zip(words.chunks_exact(4)) {
            for (place, word) in class.iter().zip(&words[1..]) {
                place.store(word.parse().unwrap_or(0), Ordering::Relaxed);
            }
        }
    }
}

/// Parses some classes; the others stay as they are.
pub(super) fn read(text: &str, present: &str) -> Result<String, String> {
    let words: Vec<_> = text.split_whitespace().collect();
    if words.is_empty() || !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".into());
    }
    let mut classes: Vec<[String; 3]> = present
        .split_whitespace()
        .collect::<Vec<_>>()
        .chunks_exact(4)
        .map(|words| [words[1], words[2], words[3]].map(str::to_owned))
        .collect();
    classes.resize(CLASSES.len(), ["0", "0", "0"].map(str::to_owned));
    for words in words.chunks_exact(4) {
        let name = words[0].to_ascii_lowercase();
        let name = if name == "replica" { "slave" } else { &name };
        let class = CLASSES.iter().position(|class| *class == name);
        let class = class.ok_or("Invalid client class specified in buffer limit configuration.")?;
        let seconds = words[3].parse::<u32>().ok().filter(|seconds| i32::try_from(*seconds).is_ok());
        let (Some(hard), Some(soft), Some(seconds)) = (bytes(words[1]), bytes(words[2]), seconds) else {
            return Err("Error in hard, soft or soft_seconds setting in buffer limit configuration.".into());
        };
        classes[class] = [hard.to_string(), soft.to_string(), seconds.to_string()];
    }
    let shown = CLASSES.iter().zip(classes).map(|(name, values)| format!("{name} {}", values.join(" ")));
    Ok(shown.collect::<Vec<_>>().join(" "))
}
