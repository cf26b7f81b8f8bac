//! The tree of directives, with included files inserted.

use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use tollgate_rules::Source;

use super::lexer::{Lexer, Token};
use crate::import::draft::RulesDraft;
use crate::import::finding::{Effect, Origin};
use crate::import::{beside, text_of};

/// The maximum nesting of blocks, and of files that include files.
const MAX_DEPTH: usize = 32;
/// The maximum number of directives, those of included files counted each time.
const MAX_DIRECTIVES: usize = 500_000;

/// A directive: `name args;` or `name args { block }`.
#[derive(Clone, Debug)]
pub(super) struct Directive {
    pub(super) name: String,
    pub(super) args: Vec<String>,
    pub(super) block: Vec<Directive>,
    pub(super) origin: Origin,
    /// The number among all directives.
    pub(super) number: usize,
}

impl Directive {
    /// Returns the directive as it is written, without its block.
    pub(super) fn text(&self) -> String {
        let words: Vec<&str> =
            std::iter::once(&self.name).chain(&self.args).map(String::as_str).collect();
        words.join(" ")
    }

    pub(super) fn arg(&self, index: usize) -> &str {
        self.args.get(index).map_or("", String::as_str)
    }

    /// Returns the value of an argument `name=value`.
    pub(super) fn option(&self, name: &str) -> Option<&str> {
        self.args.iter().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('='))
    }
}

/// Reads files and what they include.
pub(super) struct ConfigReader<'d> {
    pub(super) draft: &'d mut RulesDraft,
    pub(super) directives: usize,
    /// The main file: relative names start from its folder.
    pub(super) main: String,
}

impl ConfigReader<'_> {
    pub(super) fn read(&mut self, source: &Source, depth: usize) -> anyhow::Result<Vec<Directive>> {
        let mut lexer = Lexer::new(&source.text);
        self.block(&mut lexer, &source.name, depth, true)
    }

    fn block(
        &mut self,
        lexer: &mut Lexer<'_>,
        file: &str,
        depth: usize,
        whole_file: bool,
    ) -> anyhow::Result<Vec<Directive>> {
        if depth > MAX_DEPTH {
            bail!("{file}:{}: blocks or files are nested too deeply", lexer.line);
        }
        let (mut directives, mut words, mut line) = (Vec::new(), Vec::new(), 0);
        loop {
            let token =
                lexer.next().map_err(|reason| anyhow!("{file}:{}: {reason}", lexer.line))?;
            if words.is_empty() {
                line = lexer.line;
            }
            let block = match token {
                Some(Token::Word(word)) => {
                    words.push(word);
                    continue;
                }
                None if whole_file && words.is_empty() => return Ok(directives),
                None => bail!("{file}:{line}: expected \";\" or \"}}\" before the end"),
                Some(Token::Close) if !whole_file && words.is_empty() => return Ok(directives),
                Some(Token::Close) => bail!("{file}:{}: unexpected \"}}\"", lexer.line),
                Some(Token::End) if words.is_empty() => continue,
                Some(Token::Open) if words.is_empty() => {
                    bail!("{file}:{}: a block without a name", lexer.line)
                }
                Some(Token::End) => Vec::new(),
                Some(Token::Open) if words[0].ends_with("_by_lua_block") => {
                    lexer.skip_lua().map_err(|reason| anyhow!("{file}:{line}: {reason}"))?;
                    Vec::new()
                }
                Some(Token::Open) => self.block(lexer, file, depth + 1, false)?,
            };
            self.directives += 1;
            if self.directives > MAX_DIRECTIVES {
                bail!("{file}:{line}: more than {MAX_DIRECTIVES} directives");
            }
            let name = words.remove(0);
            let args = std::mem::take(&mut words);
            let (origin, number) = (Origin::new(file, line), self.directives);
            let directive = Directive { name, args, block, origin, number };
            match directive.name.as_str() {
                "include" => directives.extend(self.include(&directive, depth)?),
                _ => directives.push(directive),
            }
        }
    }

    /// Reads the files that an `include` names.
    fn include(&mut self, directive: &Directive, depth: usize) -> anyhow::Result<Vec<Directive>> {
        let wanted = beside(&self.main, directive.arg(0));
        let mut directives = Vec::new();
        let files = match matching(&wanted) {
            Ok(files) => files,
            Err(error) => {
                self.unread(directive, &wanted, &error.to_string());
                Vec::new()
            }
        };
        for file in files {
            match text_of(&file) {
                Ok(text) => {
                    let source = Source::new(file.display().to_string(), text);
                    directives.extend(self.read(&source, depth + 1)?);
                }
                Err(error) => self.unread(directive, &file, &error.root_cause().to_string()),
            }
        }
        Ok(directives)
    }

    /// Reports a file that could not be read, unless it cannot contain limits.
    fn unread(&mut self, directive: &Directive, file: &Path, reason: &str) {
        if file.file_name().is_some_and(|name| name == "mime.types") {
            return;
        }
        let message = format!("{} was not read: {reason}", file.display());
        self.draft.find(Effect::MorePermissive, &directive.origin, message);
    }
}

/// Returns the names of all directives of a text, without those of included files.
pub(super) fn names(source: &Source) -> anyhow::Result<Vec<String>> {
    let mut lexer = Lexer::new(&source.text);
    let (mut names, mut depth, mut is_first) = (Vec::new(), 0_usize, true);
    while let Some(token) = lexer.next()? {
        let begins = !matches!(token, Token::Word(_));
        match token {
            Token::Word(word) if is_first => names.push(word),
            Token::Word(_) | Token::End => {}
            Token::Open if names.last().is_some_and(|name| name.ends_with("_by_lua_block")) => {
                lexer.skip_lua()?;
            }
            Token::Open => depth += 1,
            Token::Close if depth > 0 => depth -= 1,
            Token::Close => bail!("unexpected \"}}\""),
        }
        is_first = begins;
    }
    match depth == 0 && is_first {
        true => Ok(names),
        false => bail!("expected \";\" or \"}}\" before the end"),
    }
}

/// Returns the files that match a name with stars in its last part, in order.
fn matching(wanted: &Path) -> std::io::Result<Vec<PathBuf>> {
    let name = wanted.file_name().unwrap_or_default().to_string_lossy();
    if !name.contains('*') {
        return Ok(vec![wanted.to_owned()]);
    }
    let folder = wanted.parent().filter(|folder| *folder != Path::new(""));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder.unwrap_or(Path::new(".")))? {
        let file = entry?.file_name();
        let text = file.to_string_lossy();
        // As in a shell, a star does not match the dot of a hidden file.
        if crate::import::glob::matches(&name, &text) && !text.starts_with('.') {
            files.push(folder.unwrap_or(Path::new("")).join(&file));
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> anyhow::Result<Vec<Directive>> {
        let mut draft = RulesDraft::default();
        let mut reader = ConfigReader { draft: &mut draft, directives: 0, main: "t".to_owned() };
        reader.read(&Source::new("t", text), 0)
    }

    #[test]
    fn blocks_nest() {
        let tree = read("http {\n  limit_req zone=a burst=5;\n}\n").unwrap();
        let limit = &tree[0].block[0];
        assert_eq!((limit.text().as_str(), limit.origin.line), ("limit_req zone=a burst=5", 2));
        assert_eq!((limit.option("burst"), limit.option("b")), (Some("5"), None));
    }

    #[test]
    fn lua_is_skipped() {
        let lua = "local s = \"it's }\" -- isn't }\n if x then y = {} end";
        let tree = read(&format!("access_by_lua_block {{ {lua} }}\na;")).unwrap();
        assert_eq!((tree[1].name.as_str(), tree[1].origin.line), ("a", 3));
    }

    #[test]
    fn an_unclosed_block_is_an_error() {
        for text in ["http {", "http", "}", "{ }", "a { b }"] {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(read(&"a {".repeat(10_000)).unwrap_err().to_string().contains("deeply"));
    }
}
