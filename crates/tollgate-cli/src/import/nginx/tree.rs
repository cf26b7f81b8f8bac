//! Directives and blocks, with included files in their place.

use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use tollgate::rules::Source;

use super::lexer::{Lexer, Token};
use crate::import::draft::Draft;
use crate::import::note::{Origin, Severity};
use crate::import::{beside, text_of};

/// The deepest nesting of blocks, and of files that include files.
const MAX_DEPTH: usize = 32;
/// The most directives, those of included files counted each time.
const MAX_DIRECTIVES: usize = 500_000;

/// `name args;` or `name args { block }`.
#[derive(Clone, Debug)]
pub(super) struct Directive {
    pub(super) name: String,
    pub(super) args: Vec<String>,
    pub(super) block: Vec<Directive>,
    pub(super) origin: Origin,
    /// Which of all directives it is.
    pub(super) number: usize,
}

impl Directive {
    /// As it was written, without its block.
    pub(super) fn text(&self) -> String {
        let words: Vec<&str> =
            std::iter::once(&self.name).chain(&self.args).map(String::as_str).collect();
        words.join(" ")
    }

    pub(super) fn arg(&self, index: usize) -> &str {
        self.args.get(index).map_or("", String::as_str)
    }

    /// The value of an argument `name=value`.
    pub(super) fn option(&self, name: &str) -> Option<&str> {
        self.args.iter().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('='))
    }
}

/// Reads files and what they include.
pub(super) struct Reader<'d> {
    pub(super) draft: &'d mut Draft,
    pub(super) directives: usize,
    /// Where relative names begin: nginx means the folder of its main file.
    pub(super) main: String,
}

impl Reader<'_> {
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
            let token = lexer.next().map_err(|why| anyhow!("{file}:{}: {why}", lexer.line))?;
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
                    lexer.skip_lua().map_err(|why| anyhow!("{file}:{line}: {why}"))?;
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

    /// The directives of the files an `include` names.
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

    /// Types of files hold no limits; anything else might.
    fn unread(&mut self, directive: &Directive, file: &Path, why: &str) {
        if file.file_name().is_some_and(|name| name == "mime.types") {
            return;
        }
        let message = format!("{} was not read: {why}", file.display());
        self.draft.note(Severity::LeftOut, &directive.origin, message);
    }
}

/// The files a name with stars in its last part stands for, in order.
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
        // As in a shell, a star does not stand for the dot of a hidden file.
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
        let mut draft = Draft::default();
        let mut reader = Reader { draft: &mut draft, directives: 0, main: "t".to_owned() };
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
    fn what_does_not_close_is_an_error() {
        for text in ["http {", "http", "}", "{ }", "a { b }"] {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(read(&"a {".repeat(10_000)).unwrap_err().to_string().contains("deeply"));
    }
}
