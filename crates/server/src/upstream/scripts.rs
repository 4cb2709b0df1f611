//! Scripts with a flag that Upstash knows and Redis rejects. Pure.
//!
//! The scripts of `@upstash/ratelimit` begin with `#!lua flags=allow-key-locking`. The flag lets Upstash run scripts on other keys at
//! the same time, so without it a script means the same. It is removed from what is sent; a client still names the script by the
//! digest of its own text, so the digest is replaced as well.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use data_encoding::HEXLOWER;
use keystead_commands::args::Args;
use sha1::{Digest, Sha1};

use crate::bounds::UPSTREAM_SCRIPTS_MAX;

const FLAG: &str = "allow-key-locking";

/// The digests of scripts that were changed, and of what was sent instead.
#[derive(Default)]
pub(crate) struct Scripts(Mutex<HashMap<String, String>>);

impl Scripts {
    /// The argument of a command that must be replaced, if there is one: its index, and what is sent instead.
    pub(crate) fn replacement(&self, full_name: &str, args: Args<'_>) -> Option<(usize, Vec<u8>)> {
        match full_name {
            "eval" | "eval_ro" => self.without_flag(args, 1),
            "script|load" => self.without_flag(args, 2),
            "evalsha" | "evalsha_ro" => {
                let digest = std::str::from_utf8(args.get(1)?).ok()?.to_ascii_lowercase();
                Some((1, self.lock().get(&digest)?.clone().into_bytes()))
            }
            _ => None,
        }
    }

    fn without_flag(&self, args: Args<'_>, at: usize) -> Option<(usize, Vec<u8>)> {
        let script = args.get(at)?;
        let changed = without_flag(script)?;
        let digest = |text: &[u8]| HEXLOWER.encode(&Sha1::digest(text));
        let mut known = self.lock();
        if known.len() >= UPSTREAM_SCRIPTS_MAX {
            known.clear();
        }
        known.insert(digest(script), digest(&changed));
        Some((at, changed))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The script without the flag; nothing if it does not have it.
fn without_flag(script: &[u8]) -> Option<Vec<u8>> {
    let rest = script.strip_prefix(b"#!lua")?;
    let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    let (words, body) = rest.split_at(end);
    let words = std::str::from_utf8(words).ok()?;
    if !words.contains(FLAG) {
        return None;
    }
    let mut first = String::from("#!lua");
    for word in words.split_ascii_whitespace() {
        let kept = match word.strip_prefix("flags=") {
            Some(flags) => {
                let flags: Vec<&str> = flags.split(',').filter(|flag| *flag != FLAG).collect();
                if flags.is_empty() { continue } else { format!("flags={}", flags.join(",")) }
            }
            None => word.to_owned(),
        };
        first.push(' ');
        first.push_str(&kept);
    }
    Some([first.as_bytes(), body].concat())
}

#[cfg(test)]
mod tests {
    use keystead_commands::Command;

    use super::*;

    #[test]
    fn only_the_flag_is_removed() {
        for (script, changed) in [
            ("return 1", None),
            ("#!lua\nreturn 1", None),
            ("#!lua flags=no-writes\nreturn 1", None),
            ("return 1 --[[ #!lua flags=allow-key-locking ]]", None),
            ("#!lua flags=allow-key-locking\nreturn 1", Some("#!lua\nreturn 1")),
            ("#!lua flags=allow-key-locking", Some("#!lua")),
            ("#!lua flags=no-writes,allow-key-locking\r\nx", Some("#!lua flags=no-writes\nx")),
            ("#!lua name=a flags=allow-key-locking,allow-oom\nx", Some("#!lua name=a flags=allow-oom\nx")),
        ] {
            let found = without_flag(script.as_bytes());
            assert_eq!(found.as_deref(), changed.map(str::as_bytes), "{script}");
        }
    }

    #[test]
    fn the_digest_of_a_changed_script_is_replaced() {
        let scripts = Scripts::default();
        let replaced = |name: &str, words: &[&str]| scripts.replacement(name, Command::new(words).args());
        let digest = |text: &str| HEXLOWER.encode(&Sha1::digest(text.as_bytes()));
        let (script, changed) = ("#!lua flags=allow-key-locking\nreturn 1", "#!lua\nreturn 1");
        let upper = digest(script).to_uppercase();
        assert_eq!(replaced("evalsha", &["EVALSHA", &upper, "0"]), None);
        assert_eq!(replaced("eval", &["EVAL", script, "0"]), Some((1, changed.into())));
        assert_eq!(replaced("evalsha", &["EVALSHA", &upper, "0"]), Some((1, digest(changed).into_bytes())));
        assert_eq!(replaced("script|load", &["SCRIPT", "LOAD", script]), Some((2, changed.into())));
        assert_eq!(replaced("eval", &["EVAL", "return 1", "0"]), None);
        assert_eq!(replaced("get", &["GET", script]), None);
        assert_eq!(replaced("eval", &["EVAL"]), None);
    }
}
