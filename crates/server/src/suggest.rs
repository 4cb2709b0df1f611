//! "Did you mean": the known word nearest to a misspelt one. Pure.

/// The candidate nearest to `word`, if one is near enough to be a likely misspelling.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = normal(word);
    // A third of the word may be wrong: enough for a typo or two, too little to suggest an unrelated word.
    let typos_max = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&word, &normal(candidate)), candidate))
        .filter(|(typos, _)| *typos <= typos_max)
        .min_by_key(|(typos, _)| *typos)
        .map(|(_, candidate)| candidate)
}

/// Case and the choice of `-` or `_` do not count.
fn normal(word: &str) -> String {
    word.to_lowercase().replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: [&str; 4] = ["http", "data", "durability", "log-level"];

    #[test]
    fn a_typo_finds_its_word() {
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
