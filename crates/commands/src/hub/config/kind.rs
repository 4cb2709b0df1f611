//! The type of a setting, and how its value is parsed. It touches nothing.

use super::limit;

/// The type of a setting.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// `yes` or `no`.
    YesNo,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// One or more of these words.
    Choices(&'static [&'static str]),
    /// An integer in this range.
    Int(i64, i64),
    /// A number of bytes in this range, optionally with a unit.
    Bytes(u64, u64),
    /// A number of bytes, or a percentage: `5%`.
    BytesOrShare,
    /// Any text.
    Text,
    /// Pairs of seconds and changes.
    Save,
    /// Client classes and their limits.
    OutputLimits,
    /// Numbers between 0 and 100.
    Percentiles,
    /// Three numbers between -2000 and 2000.
    OomScores,
}

impl Kind {
    /// The value as it is stored and shown.
    ///
    /// # Errors
    /// Redis's error if it is not allowed.
    pub(super) fn read(&self, text: &[u8], present: &str) -> Result<String, String> {
        let text = std::str::from_utf8(text).map_err(|_| "argument must be text")?;
        match *self {
            Kind::YesNo => match text.to_ascii_lowercase().as_str() {
                yes_or_no @ ("yes" | "no") => Ok(yes_or_no.to_owned()),
                _ => Err("argument must be 'yes' or 'no'".into()),
            },
            Kind::Choice(words) => choose(words, &[text]),
            Kind::Choices(words) => choose(words, &text.split_whitespace().collect::<Vec<_>>()),
            Kind::Int(min, max) => {
                let value = crate::number::parse_int(text.as_bytes());
                let value = value.ok_or("argument couldn't be parsed into an integer")?;
                if (min..=max).contains(&value) { Ok(value.to_string()) } else { Err(between(min, max)) }
            }
            Kind::Bytes(min, max) => {
                let value = bytes(text).ok_or("argument must be a memory value")?;
                if (min..=max).contains(&value) { Ok(value.to_string()) } else { Err(between(min, max)) }
            }
            Kind::BytesOrShare => share(text),
            Kind::Text => Ok(text.to_owned()),
            Kind::Save => save(text),
            Kind::OutputLimits => limit::read(text, present),
            Kind::Percentiles => percentiles(text),
            Kind::OomScores => oom_scores(text),
        }
    }
}

/// A number with a unit: `1k` is 1000 bytes, `1kb` is 1024.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

fn between(min: impl std::fmt::Display, max: impl std::fmt::Display) -> String {
    format!("argument must be between {min} and {max} inclusive")
}

fn choose(words: &[&str], chosen: &[&str]) -> Result<String, String> {
    let known: Option<Vec<&str>> = chosen
        .iter()
        .map(|chosen| words.iter().find(|word| word.eq_ignore_ascii_case(chosen)).copied())
        .collect();
    match known {
        Some(known) if !known.is_empty() => Ok(known.join(" ")),
        _ => Err(format!("argument(s) must be one of the following: {}", words.join(", "))),
    }
}

fn share(text: &str) -> Result<String, String> {
    let Some(percent) = text.strip_suffix('%') else {
        return bytes(text)
            .map(|bytes| bytes.to_string())
            .ok_or_else(|| "argument must be a memory or percent value".into());
    };
    match percent.parse::<u64>() {
        Ok(percent) if percent <= 100 => Ok(text.to_owned()),
        Ok(_) => Err("percentage argument must be less or equal to 100".into()),
        Err(_) => Err("argument must be a memory or percent value".into()),
    }
}

fn save(text: &str) -> Result<String, String> {
    let numbers: Option<Vec<u32>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
    match numbers {
        Some(numbers)
            if numbers.len().is_multiple_of(2) && numbers.iter().step_by(2).all(|seconds| *seconds > 0) =>
        {
            Ok(numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(" "))
        }
        _ => Err("Invalid save parameters".into()),
    }
}

fn percentiles(text: &str) -> Result<String, String> {
    let fits = |word: &str| word.parse::<f64>().is_ok_and(|value| (0.0..=100.0).contains(&value));
    if text.split_whitespace().all(fits) {
        return Ok(text.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    Err("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]".into())
}

fn oom_scores(text: &str) -> Result<String, String> {
    let words: Vec<_> = text.split_whitespace().collect();
    if words.len() != 3 {
        return Err("wrong number of arguments".into());
    }
    if words.iter().all(|word| word.parse::<i32>().is_ok_and(|value| (-2000..=2000).contains(&value))) {
        return Ok(words.join(" "));
    }
    Err("Invalid oom-score-adj-values, elements must be between -2000 and 2000.".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_redis_reads_them() {
        let words = Kind::Choice(&["everysec", "always"]);
        let limits = Kind::OutputLimits;
        let present = "normal 0 0 0 slave 1 2 3 pubsub 4 5 6";
        for (kind, text, value) in [
            (Kind::YesNo, "YES", Ok("yes")),
            (Kind::YesNo, "1", Err("argument must be 'yes' or 'no'")),
            (words, "Always", Ok("always")),
            (words, "x", Err("argument(s) must be one of the following: everysec, always")),
            (Kind::Choices(&["save", "now"]), "now SAVE", Ok("now save")),
            (Kind::Int(1, 9), "9", Ok("9")),
            (Kind::Int(1, 9), "10", Err("argument must be between 1 and 9 inclusive")),
            (Kind::Int(1, 9), "x", Err("argument couldn't be parsed into an integer")),
            (Kind::Bytes(0, u64::MAX), "10mb", Ok("10485760")),
            (Kind::Bytes(0, u64::MAX), "2k", Ok("2000")),
            (Kind::Bytes(0, u64::MAX), "1.5mb", Err("argument must be a memory value")),
            (Kind::Bytes(0, u64::MAX), "-1", Err("argument must be a memory value")),
            (Kind::BytesOrShare, "5%", Ok("5%")),
            (Kind::BytesOrShare, "101%", Err("percentage argument must be less or equal to 100")),
            (Kind::Save, "900 1  300 10", Ok("900 1 300 10")),
            (Kind::Save, "900", Err("Invalid save parameters")),
            (Kind::Percentiles, "50 99.9", Ok("50 99.9")),
            (Kind::OomScores, "1 2", Err("wrong number of arguments")),
            (limits, "replica 1kb 2kb 9", Ok("normal 0 0 0 slave 1024 2048 9 pubsub 4 5 6")),
            (limits, "normal 1", Err("Wrong number of arguments in buffer limit configuration.")),
            (limits, "x 1 1 1", Err("Invalid client class specified in buffer limit configuration.")),
        ] {
            let read = kind.read(text.as_bytes(), present);
            assert_eq!(read.as_deref().map_err(String::as_str), value, "{text}");
        }
    }
}
