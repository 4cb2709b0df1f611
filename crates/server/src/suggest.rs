//! "Did you mean": the nearest known word to a misspelt one. Pure.

/// The candidate nearest to `word`, if one is near enough to be a likely misspelling.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = normal(word);
    // A third of the word may be wrong: enough for a slip or two, too little to propose something unrelated.
    let slips_max = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&word, &normal(candidate)), candidate))
        .filter(|(slips, _)| *slips <= slips_max)
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, candidate)| candidate)
}

/// Case and the choice of `-` or `_` are the commonest slips, so they do not count.
fn normal(word: &str) -> String {
    word.to_lowercase().replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: [&str; 4] = ["http", "data", "durability", "log-level"];

    #[test]
    fn a_slip_finds_its_word() {
        for (word, meant) in [
            ("durabilty", "durability"),
            ("htpt", "http"),
            ("DATA", "data"),
            ("log_level", "log-level"),
            ("dat", "data"),
        ] {
            assert_eq!(nearest(word, WORDS), Some(meant), "{word}");
        }
    }

    #[test]
    fn an_unrelated_word_finds_nothing() {
        for word in ["", "port", "verbose", "x"] {
            assert_eq!(nearest(word, WORDS), None, "{word}");
        }
    }
}
