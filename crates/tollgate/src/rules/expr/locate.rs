//! Where in a text a word stands: the parser does not say where the parts of a tree come from.

use std::ops::Range;

use cel::parser::pratt_parser::{Lexer, Token, TokenKind};

/// The tokens of an expression, up to its end or the first that is none.
pub(super) fn tokens(text: &str) -> impl Iterator<Item = Token> {
    let mut lexer = Lexer::new(text);
    let all = std::iter::from_fn(move || Some(lexer.lex()));
    all.take_while(|token| !matches!(token.kind, TokenKind::TokEnd | TokenKind::TokError))
        .filter(|token| !matches!(token.kind, TokenKind::TokWhitespace | TokenKind::TokComment))
}

/// The first place where a word stands as a word; the whole text if nowhere.
pub(super) fn word(text: &str, word: &str) -> Range<usize> {
    let found = tokens(text).find(|token| text.get(token.start..token.end) == Some(word));
    found.map_or(0..text.len(), |token| token.start..token.end)
}

/// The first literal text with this content, quotes included; the whole text if nowhere.
pub(super) fn quoted(text: &str, content: &str) -> Range<usize> {
    let is_it = |token: &Token| {
        let spelled = text.get(token.start..token.end).unwrap_or_default();
        token.kind == TokenKind::TokString && spelled.replace(r"\\", r"\").contains(content)
    };
    tokens(text).find(is_it).map_or(0..text.len(), |token| token.start..token.end)
}
