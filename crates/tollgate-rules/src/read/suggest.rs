//! Suggestions for misspelled words: "did you mean …?".

/// The maximum length of a word to compare: comparing takes the product of the lengths.
const MAX_WORD: usize = 40;

/// The maximum number of candidates that are compared.
const MAX_CANDIDATES: usize = 500;

/// Returns the candidate closest to `word`, if one is close enough to have been meant.
pub(crate) fn closest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    if word.len() > MAX_WORD {
        return None;
    }
    let word = word.to_lowercase().replace('-', "_");
    let distance = |candidate: &str| strsim::damerau_levenshtein(&word, &candidate.to_lowercase());
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= MAX_WORD)
        .take(MAX_CANDIDATES)
        .map(|candidate| (distance(candidate), candidate))
        .filter(|(distance, candidate)| {
            *distance <= 1 + candidate.len().min(word.len()) / 4 && *distance < candidate.len()
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Field names of other rate limiters, and those of rules for the same.
const SYNONYMS: [(&str, &str); 18] = [
    ("id", "name"),
    ("path", "route"),
    ("paths", "route"),
    ("if", "when"),
    ("condition", "when"),
    ("conditions", "when"),
    ("match", "when"),
    ("key", "per"),
    ("keys", "per"),
    ("by", "per"),
    ("rate", "limit"),
    ("rate_limit", "limit"),
    ("action", "then"),
    ("amount", "requests"),
    ("max", "requests"),
    ("period", "per"),
    ("window", "per"),
    ("interval", "per"),
];

/// Returns the known field that other rate limiters call `word`.
pub(crate) fn synonym(word: &str, known: &[&'static str]) -> Option<&'static str> {
    let meant = SYNONYMS.iter().filter(|(other, _)| *other == word).map(|(_, ours)| *ours);
    meant.into_iter().find(|ours| known.contains(ours))
}

/// Lists at most twenty words for a message: `name`, `route`, `when`.
pub(crate) fn listed<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let mut words = words.into_iter();
    let mut listed: Vec<String> = words.by_ref().take(20).map(|word| format!("`{word}`")).collect();
    if words.next().is_some() {
        listed.push("…".into());
    }
    listed.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses_are_found_and_unrelated_words_are_not() {
        let fields = ["name", "route", "when", "limit", "on_error"];
        assert_eq!(closest("nmae", fields), Some("name"));
        assert_eq!(closest("Limits", fields), Some("limit"));
        assert_eq!(closest("on-error", fields), Some("on_error"));
        assert_eq!(closest("colour", fields), None);
        assert_eq!(closest("x", fields), None);
        assert_eq!(closest(&"name".repeat(1_000_000), fields), None);
    }

    #[test]
    fn fields_of_other_rate_limiters_are_known() {
        assert_eq!(synonym("path", &["name", "route"]), Some("route"));
        assert_eq!(synonym("path", &["name"]), None);
        assert_eq!(synonym("route", &["route"]), None);
    }

    #[test]
    fn lists_are_short() {
        assert_eq!(listed(["a", "b"]), "`a`, `b`");
        assert!(listed(["a"; 1_000]).ends_with("`a`, …"));
    }
}
