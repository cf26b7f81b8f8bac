//! nginx's syntax: words, quotes, escapes, comments, blocks.

use anyhow::bail;

/// A piece of a configuration.
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

/// Reads a text piece by piece.
pub(super) struct Lexer<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    /// The line of the piece last read, counted from 1.
    pub(super) line: usize,
    at_line: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Lexer<'a> {
        Lexer { rest: text.chars().peekable(), line: 1, at_line: 1 }
    }

    fn step(&mut self) -> Option<char> {
        let c = self.rest.next();
        self.at_line += usize::from(c == Some('\n'));
        c
    }

    fn skip_blanks(&mut self) {
        while let Some(c) = self.rest.peek().copied() {
            match c {
                '#' => while self.step().is_some_and(|c| c != '\n') {},
                c if c.is_whitespace() => drop(self.step()),
                _ => return,
            }
        }
    }

    /// The next piece; none at the end.
    pub(super) fn next(&mut self) -> anyhow::Result<Option<Token>> {
        self.skip_blanks();
        self.line = self.at_line;
        let Some(c) = self.rest.peek().copied() else { return Ok(None) };
        let token = match c {
            ';' => Token::End,
            '{' => Token::Open,
            '}' => Token::Close,
            '"' | '\'' => {
                self.step();
                return self.quoted(c).map(|word| Some(Token::Word(word)));
            }
            _ => return Ok(Some(Token::Word(self.word()))),
        };
        self.step();
        Ok(Some(token))
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(c) = self.rest.peek().copied() {
            match c {
                '\\' => {
                    self.step();
                    self.escape(&mut word);
                    continue;
                }
                // `${name}` is a variable, not a block.
                '{' if word.ends_with('$') => {}
                ';' | '{' => break,
                c if c.is_whitespace() => break,
                _ => {}
            }
            word.extend(self.step());
        }
        word
    }

    fn quoted(&mut self, quote: char) -> anyhow::Result<String> {
        let mut word = String::new();
        loop {
            match self.step() {
                Some('\\') => self.escape(&mut word),
                Some(c) if c == quote => return Ok(word),
                Some(c) => word.push(c),
                None => bail!("this text is not closed"),
            }
        }
    }

    /// What follows a backslash; where it does not escape anything, the backslash stays.
    fn escape(&mut self, word: &mut String) {
        match self.step() {
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

    /// Skips Lua, up to the brace that closes the block. Braces in texts and comments are none.
    pub(super) fn skip_lua(&mut self) -> anyhow::Result<()> {
        let mut depth = 1;
        let mut previous = ' ';
        while let Some(c) = self.step() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                '"' | '\'' => self.skip_lua_text(c),
                '-' if previous == '-' => while self.step().is_some_and(|c| c != '\n') {},
                _ => {}
            }
            previous = c;
            if depth == 0 {
                return Ok(());
            }
        }
        bail!("this block is not closed")
    }

    /// A text of Lua ends with its quote, or with its line.
    fn skip_lua_text(&mut self, quote: char) {
        while let Some(c) = self.step() {
            match c {
                '\\' => drop(self.step()),
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
    fn pieces_come_with_their_lines() {
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
    fn an_open_text_is_an_error() {
        assert!(Lexer::new("\"abc").next().is_err());
    }
}
