//! `#!lua name=... flags=...`: the shebang line of a script. It touches nothing.

use crate::errors::Fail;

/// What a script or a function may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScriptFlags(u8);

/// Names of flags in the order in which Redis shows them. The last one is Upstash's, and is accepted without effect.
const NAMES: &[&str] =
    &["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys", "allow-key-locking"];

impl ScriptFlags {
    /// It writes nothing.
    pub(crate) const NO_WRITES: ScriptFlags = ScriptFlags(1);

    /// It may use more memory when the bound is reached.
    pub(crate) const ALLOW_OOM: ScriptFlags = ScriptFlags(1 << 1);

    /// Whether a script with these flags may begin when the memory bound is reached.
    pub(crate) fn runs_out_of_memory(self) -> bool {
        self.has(ScriptFlags::ALLOW_OOM) || self.has(ScriptFlags::NO_WRITES)
    }

    /// The flag of this name.
    pub(crate) fn named(name: &[u8]) -> Option<ScriptFlags> {
        let at = NAMES.iter().position(|known| known.as_bytes() == name)?;
        Some(ScriptFlags(1 << at))
    }

    /// The union with another.
    pub(crate) fn and(self, other: ScriptFlags) -> ScriptFlags {
        ScriptFlags(self.0 | other.0)
    }

    /// Whether it is set.
    pub(crate) fn has(self, other: ScriptFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// The names of those that are set.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES.iter().copied().enumerate().filter(move |(at, _)| self.0 & 1 << at != 0).map(|(_, name)| name)
    }
}

/// The shebang line of a script, and where its code begins: at the end of that line, so that line numbers stay the same.
/// Without such a line there are no flags, and the old rules apply.
pub(crate) fn of_script(text: &[u8]) -> Result<(Option<ScriptFlags>, usize), Fail> {
    if !text.starts_with(b"#!") {
        return Ok((None, 0));
    }
    let end = line_end(text).ok_or(Fail::fixed("ERR Invalid script shebang"))?;
    let parts = words(&text[..end]);
    let Some((engine, options)) = parts.split_first() else {
        return Err(Fail::fixed("ERR Invalid engine in script shebang"));
    };
    if *engine != b"#!lua" {
        return Err(failed("Unexpected engine in script shebang", engine));
    }
    let mut flags = ScriptFlags::default();
    for option in options {
        let Some(names) = option.strip_prefix(b"flags=") else {
            return Err(failed("Unknown lua shebang option", option));
        };
        if names.is_empty() {
            continue;
        }
        for name in names.split(|byte| *byte == b',') {
            let flag =
                ScriptFlags::named(name).ok_or_else(|| failed("Unexpected flag in script shebang", name))?;
            flags = flags.and(flag);
        }
    }
    Ok((Some(flags), end))
}

/// The name of a library and where its code begins.
pub(crate) fn of_library(text: &[u8]) -> Result<(&[u8], usize), Fail> {
    if !text.starts_with(b"#!") {
        return Err(Fail::fixed("ERR Missing library metadata"));
    }
    let end = line_end(text).ok_or(Fail::fixed("ERR Invalid library metadata"))?;
    let parts = words(&text[..end]);
    let Some((engine, options)) = parts.split_first() else {
        return Err(Fail::fixed("ERR Invalid library metadata"));
    };
    let mut name = None;
    for option in options {
        let is_name = option.len() >= 5 && option[..5].eq_ignore_ascii_case(b"name=");
        if !is_name {
            return Err(failed("Invalid metadata value given", option));
        }
        if name.replace(&option[5..]).is_some() {
            return Err(Fail::fixed("ERR Invalid metadata value, name argument was given multiple times"));
        }
    }
    let name = name.ok_or(Fail::fixed("ERR Library name was not given"))?;
    check_name(name)?;
    let engine = &engine[2..];
    if !engine.eq_ignore_ascii_case(b"lua") {
        return Err(Fail::text(format!("ERR Engine '{}' not found", String::from_utf8_lossy(engine))));
    }
    Ok((name, end))
}

/// Whether this is a valid name of a library or a function.
pub(crate) fn check_name(name: &[u8]) -> Result<(), Fail> {
    if !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') {
        return Ok(());
    }
    Err(Fail::fixed(
        "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long",
    ))
}

fn failed(what: &str, word: &[u8]) -> Fail {
    Fail::text(format!("ERR {what}: {}", String::from_utf8_lossy(word)))
}

/// C's strchr: a zero byte ends the text.
fn line_end(text: &[u8]) -> Option<usize> {
    text.iter().position(|byte| matches!(byte, b'\n' | 0)).filter(|at| text[*at] == b'\n')
}

fn words(line: &[u8]) -> Vec<&[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shebang_line_has_flags_or_is_an_error() {
        let flags = |text: &str| of_script(text.as_bytes()).map_err(|fail| fail.line().into_owned());
        assert_eq!(flags("return 1"), Ok((None, 0)));
        assert_eq!(flags("#!lua\nreturn 1"), Ok((Some(ScriptFlags(0)), 5)));
        assert_eq!(flags("#!lua flags=no-writes,allow-key-locking\n"), Ok((Some(ScriptFlags(33)), 39)));
        assert_eq!(flags("#!lua flags=\nreturn 1"), Ok((Some(ScriptFlags(0)), 12)));
        for (text, words) in [
            ("#!lua", "ERR Invalid script shebang"),
            ("#!lux\n", "ERR Unexpected engine in script shebang: #!lux"),
            ("#!lua x=y\n", "ERR Unknown lua shebang option: x=y"),
            ("#!lua flags=foo\n", "ERR Unexpected flag in script shebang: foo"),
        ] {
            assert_eq!(flags(text), Err(words.into()), "{text}");
        }
    }

    #[test]
    fn a_library_has_a_name_or_is_an_error() {
        let name = |text: &'static str| of_library(text.as_bytes()).map_err(|fail| fail.line().into_owned());
        assert_eq!(name("#!LUA Name=a_1\ncode"), Ok((&b"a_1"[..], 14)));
        for (text, words) in [
            ("code", "ERR Missing library metadata"),
            ("#!lua name=a", "ERR Invalid library metadata"),
            ("#!lua\n", "ERR Library name was not given"),
            ("#!lua name=a name=b\n", "ERR Invalid metadata value, name argument was given multiple times"),
            ("#!lua foo=a\n", "ERR Invalid metadata value given: foo=a"),
            ("#!lux name=a\n", "ERR Engine 'lux' not found"),
        ] {
            assert_eq!(name(text), Err(words.into()), "{text}");
        }
        assert!(name("#!lua name=a-b\n").is_err_and(|words| words.starts_with("ERR Library names can only")));
    }
}
