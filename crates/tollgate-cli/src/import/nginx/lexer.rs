//! The tokens of nginx's syntax: words, quotes, escapes, comments, blocks.

use anyhow::bail;

/// A token of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Word(String),
    /// `;`
    End,
    /// `{`
    Open,
    /// `}`
    Close,
}

/// Reads a text token by token.
pub(super) struct Lexer<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    /// The line of the last token, counted from 1.
    pub(super) line: usize,
    at_line: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Lexer<'a> {
        Lexer { rest: text.chars().peekable(), line: 1, at_line: 1 }
    }

    fn advance(&mut self) -> Option<char> {
        let c = self.rest.next();
        self.at_line += usize::from(c == Some('\n'));
        c
    }

    fn skip_blanks(&mut self) {
        while let Some(c) = self.rest.peek().copied() {
            match c {
                '#' => while self.advance().is_some_and(|c| c != '\n') {},
                c if c.is_whitespace() => drop(self.advance()),
                _ => return,
            }
        }
    }

    /// Returns the next token; none at the end.
    pub(super) fn next(&mut self) -> anyhow::Result<Option<Token>> {
        self.skip_blanks();
        self.line = self.at_line;
        let Some(c) = self.rest.peek().copied() else { return Ok(None) };
        let token = match c {
            ';' => Token::End,
            '{' => Token::Open,
            '}' => Token::Close,
            '"' | '\'' => {
                self.advance();
                return self.quoted(c).map(|word| Some(Token::Word(word)));
            }
            _ => return Ok(Some(Token::Word(self.word()))),
        };
        self.advance();
        Ok(Some(token))
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(c) = self.rest.peek().copied() {
            match c {
                '\\' => {
                    self.advance();
                    self.escape(&mut word);
                    continue;
                }
                // `${name}` is a variable, not a block.
                '{' if word.ends_with('$') => {}
                ';' | '{' => break,
                c if c.is_whitespace() => break,
                _ => {}
            }
            word.extend(self.advance());
        }
        word
    }

    fn quoted(&mut self, quote: char) -> anyhow::Result<String> {
        let mut word = String::new();
        loop {
            match self.advance() {
                Some('\\') => self.escape(&mut word),
                Some(c) if c == quote => return Ok(word),
                Some(c) => word.push(c),
                None => bail!("this quote is not closed"),
            }
        }
    }

    /// Reads the character after a backslash. A backslash that escapes nothing stays.
    fn escape(&mut self, word: &mut String) {
        match self.advance() {
            Some(c @ ('"' | '\'' | '\\')) => word.push(c),
            Some('t') => word.push('\t'),
            Some('r') => word.push('\r'),
            Some('n') => word.push('\n'),
            other => {
                word.push('\\');
                word.extend(other);
            }
        }
    }

    /// Skips Lua code up to the brace that closes the block, ignoring strings and comments.
    pub(super) fn skip_lua(&mut self) -> anyhow::Result<()> {
        let mut depth = 1;
        let mut previous = ' ';
        while let Some(c) = self.advance() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                '"' | '\'' => self.skip_lua_string(c),
                '-' if previous == '-' => while self.advance().is_some_and(|c| c != '\n') {},
                _ => {}
            }
            previous = c;
            if depth == 0 {
                return Ok(());
            }
        }
        bail!("this block is not closed")
    }

    /// Skips a Lua string, which ends with its quote or its line.
    fn skip_lua_string(&mut self, quote: char) {
        while let Some(c) = self.advance() {
            match c {
                '\\' => drop(self.advance()),
                c if c == quote || c == '\n' => return,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut lexer = Lexer::new(text);
        let mut shown = Vec::new();
        while let Some(token) = lexer.next().unwrap() {
            shown.push(match token {
                Token::Word(word) => format!("{}:{word}", lexer.line),
                Token::End => ";".to_owned(),
                Token::Open => "{".to_owned(),
                Token::Close => "}".to_owned(),
            });
        }
        shown
    }

    #[test]
    fn tokens_have_line_numbers() {
        let text = "a b; # c;\nd \"x; {\\\"}\" {\n e '\\.'; }";
        let expected = ["1:a", "1:b", ";", "2:d", "2:x; {\"}", "{", "3:e", "3:\\.", ";", "}"];
        assert_eq!(words(text), expected);
    }

    #[test]
    fn escapes_and_variables() {
        assert_eq!(words(r"a\ b ${x}y;"), ["1:a\\ b", "1:${x}y", ";"]);
        assert_eq!(words(r"location ~ \.php$ {}"), ["1:location", "1:~", "1:\\.php$", "{", "}"]);
        assert_eq!(words("x#y"), ["1:x#y"]);
    }

    #[test]
    fn an_unclosed_quote_is_an_error() {
        assert!(Lexer::new("\"abc").next().is_err());
    }
}
