//! Finds words in a text, because the parser does not report the positions of the parts of a tree.

use std::ops::Range;

use cel::parser::pratt_parser::{Lexer, Token, TokenKind};

/// Iterates over the tokens of an expression, up to its end or the first error.
pub(super) fn tokens(text: &str) -> impl Iterator<Item = Token> {
    let mut lexer = Lexer::new(text);
    let all = std::iter::from_fn(move || Some(lexer.lex()));
    all.take_while(|token| !matches!(token.kind, TokenKind::TokEnd | TokenKind::TokError))
        .filter(|token| !matches!(token.kind, TokenKind::TokWhitespace | TokenKind::TokComment))
}

/// Returns the range of the first token equal to a word, or else of the whole text.
pub(super) fn word(text: &str, word: &str) -> Range<usize> {
    let token = tokens(text).find(|token| text.get(token.start..token.end) == Some(word));
    token.map_or(0..text.len(), |token| token.start..token.end)
}

/// Returns the range of a name with its parts, or else of the whole text.
pub(super) fn name(text: &str, parts: &[&str]) -> Range<usize> {
    let all: Vec<Token> = tokens(text).collect();
    let spelled = |token: &Token| text.get(token.start..token.end).unwrap_or_default();
    let is_part = |token: &Token, part: &str| match token.kind {
        TokenKind::TokString => spelled(token).trim_matches(['"', '\'']) == part,
        _ => spelled(token) == part,
    };
    'start: for start in 0..all.len() {
        if parts.first().is_none_or(|first| spelled(&all[start]) != *first) {
            continue;
        }
        let mut at = start;
        for part in &parts[1..] {
            match all.get(at + 1).map(&spelled) {
                Some(".") if all.get(at + 2).is_some_and(|token| is_part(token, part)) => at += 2,
                Some("[") if all.get(at + 2).is_some_and(|token| is_part(token, part)) => at += 3,
                _ => continue 'start,
            }
        }
        let end = all.get(at).map_or(text.len(), |token| token.end);
        return all[start].start..end;
    }
    0..text.len()
}

/// Returns the range of the first literal with this content, quotes included, or else of the whole
/// text.
pub(super) fn quoted(text: &str, content: &str) -> Range<usize> {
    let is_it = |token: &Token| {
        let spelled = text.get(token.start..token.end).unwrap_or_default();
        token.kind == TokenKind::TokString && spelled.replace(r"\\", r"\").contains(content)
    };
    tokens(text).find(is_it).map_or(0..text.len(), |token| token.start..token.end)
}
