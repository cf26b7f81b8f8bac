//! Just enough of Rust's lexical rules to tell code from comments from literals.
//!
//! A rule that searched raw text would find the word `unsafe` in prose and its own search strings
//! in this crate. A full parser would be a dependency and would choke on what does not compile.

use std::ops::RangeInclusive;

/// A file in two views. Each has the lines and columns of the original, with the rest blank.
pub(super) struct Source {
    /// Without comments and literals of strings and characters.
    pub(super) code: String,
    /// Comments alone, doc comments included.
    pub(super) comments: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

impl Source {
    pub(super) fn new(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let mut source = Self { code: String::new(), comments: String::new() };
        let mut at = 0;
        while at < chars.len() {
            let (kind, end) = token(&chars, at);
            for &c in &chars[at..end] {
                let blank = if c == '\n' { '\n' } else { ' ' };
                source.code.push(if kind == Kind::Code { c } else { blank });
                source.comments.push(if kind == Kind::Comment { c } else { blank });
            }
            at = end;
        }
        source
    }

    /// Line ranges of what `#[cfg(test)]` and its like stand before.
    pub(super) fn test_regions(&self) -> Vec<RangeInclusive<usize>> {
        let code = &self.code;
        let mut regions = Vec::new();
        for (start, _) in code.match_indices("#[cfg(") {
            let Some((condition, item)) = code[start..].split_once(']') else { continue };
            if !has_word(condition, "test") {
                continue;
            }
            let item_at = code.len() - item.len();
            let end = item_at + item_length(item);
            regions.push(line_of(code, start)..=line_of(code, end));
        }
        regions
    }
}

/// The kind and the end of the token that starts at `at`.
fn token(chars: &[char], at: usize) -> (Kind, usize) {
    let next = chars.get(at + 1).copied();
    match chars[at] {
        '/' if next == Some('/') => (Kind::Comment, find(chars, at, |c| c == '\n')),
        '/' if next == Some('*') => (Kind::Comment, block_comment_end(chars, at)),
        '"' => (Kind::Literal, quoted_end(chars, at, '"')),
        // Either a character or a lifetime: a lifetime has no closing quote after one character.
        '\'' if next == Some('\\') || chars.get(at + 2) == Some(&'\'') => {
            (Kind::Literal, quoted_end(chars, at, '\''))
        }
        c if is_word(c) => {
            let end = find(chars, at, |c| !is_word(c));
            let word: String = chars[at..end].iter().collect();
            match (word.as_str(), chars.get(end)) {
                ("r" | "br" | "cr", Some('"' | '#')) => raw_string(chars, end),
                ("b" | "c", Some('"')) => (Kind::Literal, quoted_end(chars, end, '"')),
                ("b", Some('\'')) => (Kind::Literal, quoted_end(chars, end, '\'')),
                _ => (Kind::Code, end),
            }
        }
        _ => (Kind::Code, at + 1),
    }
}

fn find(chars: &[char], from: usize, stop: impl Fn(char) -> bool) -> usize {
    chars[from..].iter().position(|&c| stop(c)).map_or(chars.len(), |n| from + n)
}

fn block_comment_end(chars: &[char], at: usize) -> usize {
    let (mut depth, mut at) = (0, at);
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at.min(chars.len())
}

/// `open` is where the opening quote is; a backslash hides what follows it.
fn quoted_end(chars: &[char], open: usize, quote: char) -> usize {
    let mut at = open + 1;
    while at < chars.len() && chars[at] != quote {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

/// `at` is behind the prefix `r`. A raw identifier (`r#type`) is code.
fn raw_string(chars: &[char], at: usize) -> (Kind, usize) {
    let open = find(chars, at, |c| c != '#');
    if chars.get(open) != Some(&'"') {
        return (Kind::Code, open);
    }
    let hashes = open - at;
    let closes = |i: usize| {
        chars[i] == '"' && chars[i + 1..].iter().take_while(|&&c| c == '#').count() >= hashes
    };
    let close = (open + 1..chars.len()).find(|&i| closes(i));
    (Kind::Literal, close.map_or(chars.len(), |i| i + 1 + hashes))
}

/// To the `;` that ends the item, or to the brace that closes it.
fn item_length(item: &str) -> usize {
    let mut depth = 0;
    for (at, c) in item.char_indices() {
        match c {
            ';' if depth == 0 => return at,
            '{' => depth += 1,
            '}' if depth <= 1 => return at,
            '}' => depth -= 1,
            _ => {}
        }
    }
    item.len()
}

/// A word or number, `::`, or any other single character of code.
pub(super) struct Token<'a> {
    pub(super) line: usize,
    pub(super) text: &'a str,
}

pub(super) fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for (line, mut rest) in (1..).zip(code.lines()) {
        loop {
            rest = rest.trim_start();
            let Some(first) = rest.chars().next() else { break };
            let length = match first {
                c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                ':' if rest.starts_with("::") => 2,
                c => c.len_utf8(),
            };
            let (text, tail) = rest.split_at(length);
            tokens.push(Token { line, text });
            rest = tail;
        }
    }
    tokens
}

/// The line, from 1, of byte `at`.
fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Byte offsets of `word` where it is a word of its own.
pub(super) fn word_offsets(text: &str, word: &str) -> Vec<usize> {
    let alone =
        |at: usize| !text[..at].ends_with(is_word) && !text[at + word.len()..].starts_with(is_word);
    text.match_indices(word).map(|(at, _)| at).filter(|&at| alone(at)).collect()
}

pub(super) fn has_word(text: &str, word: &str) -> bool {
    !word_offsets(text, word).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_leave_the_code() {
        let source = Source::new("let a = \"x // y\"; // z\n/* p /* q */ r */ b");
        assert_eq!(source.code.split_whitespace().collect::<String>(), "leta=;b");
        assert_eq!(source.comments.split_whitespace().collect::<String>(), "//z/*p/*q*/r*/");
    }

    #[test]
    fn lines_stay_where_they_were() {
        let text = "a\n\"one\ntwo\"\nb /* c\nd */ e\n";
        let source = Source::new(text);
        assert_eq!(source.code.lines().count(), text.lines().count());
        assert_eq!(source.code.lines().nth(4), Some("     e"));
    }

    #[test]
    fn quotes_of_all_kinds_are_told_apart() {
        for (text, code) in [
            (r#"f('"', x)"#, "f(,x)"),
            (r"f('\'', x)", "f(,x)"),
            ("fn f<'a>(x: &'a str)", "fnf<'a>(x:&'astr)"),
            (r##"f(r#"a " b"#, x)"##, "f(,x)"),
            (r#"f(b"a\"b", br"\", x)"#, "f(,,x)"),
            ("r#type", "r#type"),
            ("bar(x)", "bar(x)"),
            ("\"unclosed", ""),
            ("r#\"unclosed", ""),
            ("/* unclosed", ""),
        ] {
            let found: String = Source::new(text).code.split_whitespace().collect();
            assert_eq!(found, code, "{text}");
        }
    }

    #[test]
    fn test_regions_end_where_their_item_ends() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() { \"}\"; }\n}\nfn c() {}\n";
        assert_eq!(Source::new(text).test_regions(), [2..=5]);
        let text = "#[cfg(all(test, unix))]\nmod tests;\nfn c() {}\n#[cfg(unix)]\nfn d() {}\n";
        assert_eq!(Source::new(text).test_regions(), [1..=2]);
    }

    #[test]
    fn tokens_know_their_line() {
        let found: Vec<_> = tokens("a::b1\n  (2.5)").iter().map(|t| (t.line, t.text)).collect();
        let one = [(1, "a"), (1, "::"), (1, "b1")];
        let two = [(2, "("), (2, "2"), (2, "."), (2, "5"), (2, ")")];
        assert_eq!(found, [one.as_slice(), two.as_slice()].concat());
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("an unsafe fn", "unsafe"));
        assert!(!has_word("unsafe_code, not_unsafe", "unsafe"));
        assert_eq!(word_offsets("é a", "a"), [3]);
    }
}
