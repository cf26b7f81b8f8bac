//! The table of option keywords: spelling, argument, and the algorithms each goes with.
//!
//! The parser, the printer and the constructors read this table.

/// A keyword of a limit, in the order of printing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Keyword {
    // Limits that are not rates.
    Unlimited,
    Concurrent,
    Adaptive,
    // Algorithms of a rate; the default is a token bucket.
    TokenBucket,
    Leaky,
    Gcra,
    Fixed,
    Calendar,
    Sliding,
    Log,
    WarmUp,
    // Options of an algorithm.
    Free,
    FirstHit,
    Zone,
    Anchor,
    Slots,
    MinGap,
    CountDenied,
    Burst,
    Initial,
    Interval,
    PayLater,
    Aimd,
    Vegas,
    Gradient2,
    Lease,
}

/// The kind of argument that follows a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArgumentKind {
    Nothing,
    Number,
    Span,
    Zone,
}

/// A row of the keyword table.
struct KeywordEntry {
    keyword: Keyword,
    /// All spellings, the canonical one first.
    names: &'static [&'static str],
    argument: ArgumentKind,
    /// The algorithms this option goes with; the first is implied if none is named.
    refines: &'static [Keyword],
}

use ArgumentKind::{Nothing, Number, Span, Zone};
use Keyword::{Adaptive, Calendar, Concurrent, Fixed, Gcra, Leaky, Log, Sliding, TokenBucket};

const BUCKETS: &[Keyword] = &[TokenBucket, Leaky, Gcra];

const fn entry(
    keyword: Keyword,
    names: &'static [&'static str],
    argument: ArgumentKind,
    refines: &'static [Keyword],
) -> KeywordEntry {
    KeywordEntry { keyword, names, argument, refines }
}

const KEYWORDS: [KeywordEntry; 26] = [
    entry(Keyword::Unlimited, &["unlimited"], Nothing, &[]),
    entry(Concurrent, &["concurrent"], Nothing, &[]),
    entry(Adaptive, &["adaptive"], Nothing, &[]),
    entry(TokenBucket, &["token_bucket"], Nothing, &[]),
    entry(Leaky, &["leaky", "leaky_bucket"], Nothing, &[]),
    entry(Gcra, &["gcra"], Nothing, &[]),
    entry(Fixed, &["fixed", "fixed_window"], Nothing, &[]),
    entry(Calendar, &["calendar"], Nothing, &[]),
    entry(Sliding, &["sliding", "sliding_window"], Nothing, &[]),
    entry(Log, &["log", "sliding_log"], Nothing, &[]),
    entry(Keyword::WarmUp, &["warmup", "warm_up"], Span, &[]),
    entry(Keyword::Free, &["free"], Number, &[Leaky]),
    entry(Keyword::FirstHit, &["first_hit"], Nothing, &[Fixed]),
    entry(Keyword::Zone, &["zone", "timezone"], Zone, &[Calendar]),
    entry(Keyword::Anchor, &["anchor"], Number, &[Calendar]),
    entry(Keyword::Slots, &["slots"], Number, &[Sliding]),
    entry(Keyword::MinGap, &["min_gap"], Span, &[Log]),
    entry(Keyword::CountDenied, &["count_denied"], Nothing, &[Fixed, Calendar, Sliding, Log]),
    entry(Keyword::Burst, &["burst"], Number, BUCKETS),
    entry(Keyword::Initial, &["initial"], Number, BUCKETS),
    entry(Keyword::Interval, &["interval"], Nothing, &[TokenBucket, Gcra]),
    entry(Keyword::PayLater, &["pay_later"], Nothing, BUCKETS),
    entry(Keyword::Aimd, &["aimd"], Nothing, &[Adaptive]),
    entry(Keyword::Vegas, &["vegas"], Nothing, &[Adaptive]),
    entry(Keyword::Gradient2, &["gradient2"], Nothing, &[Adaptive]),
    entry(Keyword::Lease, &["lease"], Span, &[Concurrent, Adaptive]),
];

impl Keyword {
    const fn entry(self) -> &'static KeywordEntry {
        &KEYWORDS[self as usize]
    }

    /// Returns the canonical spelling.
    pub(super) const fn as_str(self) -> &'static str {
        self.entry().names[0]
    }

    /// Returns the kind of argument that follows this keyword.
    pub(super) const fn argument(self) -> ArgumentKind {
        self.entry().argument
    }

    /// Returns the algorithms this option goes with; empty for the keyword of an algorithm.
    pub(super) const fn refines(self) -> &'static [Keyword] {
        self.entry().refines
    }

    /// Returns whether this keyword names the algorithm of a rate.
    pub(super) fn is_algorithm(self) -> bool {
        (Keyword::TokenBucket..=Keyword::WarmUp).contains(&self)
    }

    /// Returns the option spelled `text`, in any case, with `-` or `_`.
    pub(super) fn from_text(text: &str) -> Option<Keyword> {
        let same = |a: u8, b: u8| a == b.to_ascii_lowercase() || (a == b'_' && b == b'-');
        let spelled = |name: &str| {
            name.len() == text.len() && name.bytes().zip(text.bytes()).all(|(a, b)| same(a, b))
        };
        options().find(|entry| entry.names.iter().any(|name| spelled(name))).map(|e| e.keyword)
    }

    /// Returns every spelling of every option.
    pub(super) fn spellings() -> impl Iterator<Item = &'static str> {
        options().flat_map(|entry| entry.names.iter().copied())
    }
}

/// Returns the rows of all options; the first three rows are keywords that begin a limit.
fn options() -> impl Iterator<Item = &'static KeywordEntry> {
    KEYWORDS.iter().filter(|entry| entry.keyword >= Keyword::TokenBucket)
}

/// Returns the name in `names` that is most similar to `typed`.
pub(super) fn nearest<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let typed: Vec<char> =
        typed.chars().take(MAX_COMPARED + 1).flat_map(char::to_lowercase).collect();
    if typed.len() > MAX_COMPARED {
        return None;
    }
    let letters = |name: &str| name.chars().count();
    // A text with half of its letters wrong is not a misspelling of `name`.
    let near = |name: &str| {
        let most = (letters(name).max(typed.len()) / 2).min(2);
        let apart = letters(name).abs_diff(typed.len());
        if apart > most { None } else { Some(distance(&typed, name)).filter(|d| *d <= most) }
    };
    // A missing or extra letter is likelier than a wrong one.
    let rank = |name: &str| Some((near(name)?, letters(name) == typed.len()));
    names.filter_map(|name| Some((rank(name)?, name))).min_by_key(|(rank, _)| *rank).map(|(_, n)| n)
}

/// The length in characters above which a text is not compared; every keyword is shorter.
const MAX_COMPARED: usize = 40;

/// Returns the edit distance: letters to insert, delete, replace or transpose.
fn distance(typed: &[char], name: &str) -> usize {
    let name: Vec<char> = name.chars().flat_map(char::to_lowercase).collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=name.len()).collect();
    for (i, a) in typed.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in name.iter().enumerate() {
            let mut least = (above[j] + usize::from(a != b)).min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && typed[i - 1] == *b && *a == name[j - 1] {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[name.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keyword_table_is_in_enum_order() {
        assert!(KEYWORDS.iter().enumerate().all(|(index, entry)| entry.keyword as usize == index));
    }

    #[test]
    fn a_misspelled_keyword_is_found() {
        let option = |typed| nearest(typed, Keyword::spellings());
        assert_eq!(option("slidng"), Some("sliding"));
        assert_eq!(option("brust"), Some("burst"));
        assert_eq!(option("warm-up"), Some("warmup"));
        assert_eq!(option("lgo"), Some("log"));
        assert_eq!(nearest("mn", ["ms", "min"].into_iter()), Some("min"));
        assert_eq!(option("whatever"), None);
        assert_eq!(option(&"x".repeat(10_000)), None);
    }
}
