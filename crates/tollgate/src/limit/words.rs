//! The words after a rate, in one table: how they are spelled, what follows them, what they go
//! with. The parser, the printer and the constructors all read it.

/// An option of a limit; the order is the one they are printed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Word {
    // What a limit is, if it is not a rate.
    Unlimited,
    Concurrent,
    Adaptive,
    // The algorithm of a rate: one of these, a token bucket if none is named.
    TokenBucket,
    Leaky,
    Gcra,
    Fixed,
    Calendar,
    Sliding,
    Log,
    WarmUp,
    // What refines them.
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

/// What has to follow a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Argument {
    Nothing,
    Number,
    Span,
    Zone,
}

struct Entry {
    word: Word,
    /// The canonical spelling first.
    names: &'static [&'static str],
    takes: Argument,
    /// The algorithms it refines; the first is meant if none is named.
    refines: &'static [Word],
}

use Argument::{Nothing, Number, Span, Zone};
use Word::{Adaptive, Calendar, Concurrent, Fixed, Gcra, Leaky, Log, Sliding, TokenBucket};

const BUCKETS: &[Word] = &[TokenBucket, Leaky, Gcra];

const fn entry(
    word: Word,
    names: &'static [&'static str],
    takes: Argument,
    refines: &'static [Word],
) -> Entry {
    Entry { word, names, takes, refines }
}

const WORDS: [Entry; 26] = [
    entry(Word::Unlimited, &["unlimited"], Nothing, &[]),
    entry(Concurrent, &["concurrent"], Nothing, &[]),
    entry(Adaptive, &["adaptive"], Nothing, &[]),
    entry(TokenBucket, &["token_bucket"], Nothing, &[]),
    entry(Leaky, &["leaky", "leaky_bucket"], Nothing, &[]),
    entry(Gcra, &["gcra"], Nothing, &[]),
    entry(Fixed, &["fixed", "fixed_window"], Nothing, &[]),
    entry(Calendar, &["calendar"], Nothing, &[]),
    entry(Sliding, &["sliding", "sliding_window"], Nothing, &[]),
    entry(Log, &["log", "sliding_log"], Nothing, &[]),
    entry(Word::WarmUp, &["warmup", "warm_up"], Span, &[]),
    entry(Word::Free, &["free"], Number, &[Leaky]),
    entry(Word::FirstHit, &["first_hit"], Nothing, &[Fixed]),
    entry(Word::Zone, &["zone", "timezone"], Zone, &[Calendar]),
    entry(Word::Anchor, &["anchor"], Number, &[Calendar]),
    entry(Word::Slots, &["slots"], Number, &[Sliding]),
    entry(Word::MinGap, &["min_gap"], Span, &[Log]),
    entry(Word::CountDenied, &["count_denied"], Nothing, &[Fixed, Calendar, Sliding, Log]),
    entry(Word::Burst, &["burst"], Number, BUCKETS),
    entry(Word::Initial, &["initial"], Number, BUCKETS),
    entry(Word::Interval, &["interval"], Nothing, &[TokenBucket, Gcra]),
    entry(Word::PayLater, &["pay_later"], Nothing, BUCKETS),
    entry(Word::Aimd, &["aimd"], Nothing, &[Adaptive]),
    entry(Word::Vegas, &["vegas"], Nothing, &[Adaptive]),
    entry(Word::Gradient2, &["gradient2"], Nothing, &[Adaptive]),
    entry(Word::Lease, &["lease"], Span, &[Concurrent, Adaptive]),
];

impl Word {
    const fn entry(self) -> &'static Entry {
        &WORDS[self as usize]
    }

    /// The canonical spelling.
    pub(super) const fn as_str(self) -> &'static str {
        self.entry().names[0]
    }

    /// What has to follow.
    pub(super) const fn takes(self) -> Argument {
        self.entry().takes
    }

    /// The algorithms this refines; none for a word that names an algorithm itself.
    pub(super) const fn refines(self) -> &'static [Word] {
        self.entry().refines
    }

    /// Whether this names the algorithm of a rate.
    pub(super) fn is_algorithm(self) -> bool {
        (Word::TokenBucket..=Word::WarmUp).contains(&self)
    }

    /// The option spelled `text`: in either case, with `-` for `_` if one likes.
    pub(super) fn option(text: &str) -> Option<Word> {
        let same = |a: u8, b: u8| a == b.to_ascii_lowercase() || (a == b'_' && b == b'-');
        let spelled = |name: &str| {
            name.len() == text.len() && name.bytes().zip(text.bytes()).all(|(a, b)| same(a, b))
        };
        options().find(|entry| entry.names.iter().any(|name| spelled(name))).map(|e| e.word)
    }

    /// Every spelling of every option.
    pub(super) fn spellings() -> impl Iterator<Item = &'static str> {
        options().flat_map(|entry| entry.names.iter().copied())
    }
}

/// What may follow a limit; the first three words of the table begin one.
fn options() -> impl Iterator<Item = &'static Entry> {
    WORDS.iter().filter(|entry| entry.word >= Word::TokenBucket)
}

/// The one of `known` that `typed` most likely was meant to be.
pub(super) fn nearest<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let typed: Vec<char> = typed.chars().take(MAX_TYPED + 1).flat_map(char::to_lowercase).collect();
    if typed.len() > MAX_TYPED {
        return None;
    }
    let letters = |name: &str| name.chars().count();
    // A word half of whose letters are wrong was meant to be something else.
    let near = |name: &str| {
        let most = (letters(name).max(typed.len()) / 2).min(2);
        let apart = letters(name).abs_diff(typed.len());
        if apart > most { None } else { Some(distance(&typed, name)).filter(|d| *d <= most) }
    };
    // A letter too few or too many is likelier than a wrong one.
    let rank = |name: &str| Some((near(name)?, letters(name) == typed.len()));
    known.filter_map(|name| Some((rank(name)?, name))).min_by_key(|(rank, _)| *rank).map(|(_, n)| n)
}

/// Longer words than any we know are not compared.
const MAX_TYPED: usize = 40;

/// Letters to insert, drop, change or swap with their neighbour.
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
    fn the_table_is_in_order() {
        assert!(WORDS.iter().enumerate().all(|(index, entry)| entry.word as usize == index));
    }

    #[test]
    fn typing_errors_find_their_word() {
        let option = |typed| nearest(typed, Word::spellings());
        assert_eq!(option("slidng"), Some("sliding"));
        assert_eq!(option("brust"), Some("burst"));
        assert_eq!(option("warm-up"), Some("warmup"));
        assert_eq!(option("lgo"), Some("log"));
        assert_eq!(nearest("mn", ["ms", "min"].into_iter()), Some("min"));
        assert_eq!(option("whatever"), None);
        assert_eq!(option(&"x".repeat(10_000)), None);
    }
}
