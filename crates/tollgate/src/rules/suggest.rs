//! Did you mean?

/// The candidate closest to `word`, if one is close enough to have been meant.
pub(crate) fn closest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let word = word.to_lowercase();
    let distance = |candidate: &str| strsim::damerau_levenshtein(&word, &candidate.to_lowercase());
    candidates
        .into_iter()
        .map(|candidate| (distance(candidate), candidate))
        .filter(|(distance, candidate)| {
            *distance <= 1 + candidate.len().min(word.len()) / 4 && *distance < candidate.len()
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn near_misses_are_found_and_strangers_are_not() {
        let fields = ["name", "route", "when", "limit"];
        assert_eq!(closest("nmae", fields), Some("name"));
        assert_eq!(closest("Limits", fields), Some("limit"));
        assert_eq!(closest("colour", fields), None);
        assert_eq!(closest("x", fields), None);
    }
}
