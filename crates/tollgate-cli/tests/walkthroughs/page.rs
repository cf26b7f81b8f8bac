//! A page of documentation as a list of steps.
//!
//! - A block of YAML whose first line is a comment with a file name, `# rules.yaml`, is saved.
//! - A block of `sh` is run as a whole; its output is ignored.
//! - A block of `console` has commands after `$ `, which continue after a backslash. The text below a
//!   command is its output, where `…` is any text, or any lines if it is a line itself.

use std::path::{Path, PathBuf};

/// A page and its blocks.
pub(crate) struct Page {
    pub(crate) name: String,
    pub(crate) blocks: Vec<Block>,
}

/// The text between two fences.
pub(crate) struct Block {
    /// The line of its start, counted from 1.
    pub(crate) line: usize,
    pub(crate) language: String,
    pub(crate) text: String,
}

/// One step of a reader.
#[derive(Debug, PartialEq)]
pub(crate) enum PageStep {
    Paste(String),
    Command { typed: String, printed: Vec<String> },
}

impl Page {
    /// Opens a page by its path from the root of the repository.
    pub(crate) fn open(name: &str) -> Page {
        let text = std::fs::read_to_string(root().join(name));
        Page::read(name, &text.unwrap_or_else(|error| panic!("{name}: {error}")))
    }

    pub(crate) fn read(name: &str, text: &str) -> Page {
        let mut blocks = Vec::new();
        let mut lines = text.lines().enumerate();
        while let Some((index, line)) = lines.next() {
            let Some(language) = line.strip_prefix("```") else { continue };
            let inside = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```");
            let text = inside.flat_map(|line| [line, "\n"]).collect();
            let language = language.to_owned();
            blocks.push(Block { line: index + 1, language, text });
        }
        Page { name: name.to_owned(), blocks }
    }

    pub(crate) fn of(&self, language: &str) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(move |block| block.language == language)
    }

    /// Returns the files to save, by name.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.of("yaml").filter_map(|block| {
            let name = block.text.lines().next()?.strip_prefix("# ")?;
            name.ends_with(".yaml").then_some((name, &*block.text))
        })
    }

    /// Returns the steps in order.
    pub(crate) fn steps(&self) -> Vec<PageStep> {
        let mut steps = Vec::new();
        for block in &self.blocks {
            match &*block.language {
                "sh" => steps.push(PageStep::Paste(block.text.clone())),
                "console" => steps.extend(self.commands(block)),
                _ => {}
            }
        }
        steps
    }

    fn commands(&self, block: &Block) -> Vec<PageStep> {
        let mut steps: Vec<PageStep> = Vec::new();
        let mut goes_on = false;
        for line in block.text.lines() {
            match (line.strip_prefix("$ "), steps.last_mut()) {
                (_, Some(PageStep::Command { typed, .. })) if goes_on => typed.extend(["\n", line]),
                (Some(typed), _) => {
                    let typed = typed.to_owned();
                    steps.push(PageStep::Command { typed, printed: Vec::new() });
                }
                (None, Some(PageStep::Command { printed, .. })) => {
                    printed.push(line.to_owned());
                    continue;
                }
                (None, _) => panic!("{}:{}: no command above {line:?}", self.name, block.line),
            }
            goes_on = line.ends_with('\\');
        }
        steps
    }
}

/// Returns the root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn a_page_is_files_to_save_and_things_to_do() {
    let text = "\
# Title
```yaml
# a.yaml
rules: []
```
```sh
x &
```
prose $ not a command
```console
$ one \\
  more
first
$ two
$ three
…
```
```yaml
rules: []
```
";
    let page = Page::read("a", text);
    assert_eq!(page.files().collect::<Vec<_>>(), [("a.yaml", "# a.yaml\nrules: []\n")]);
    let command = |typed: &str, printed: &[&str]| PageStep::Command {
        typed: typed.to_owned(),
        printed: printed.iter().map(|line| String::from(*line)).collect(),
    };
    let expected = [
        PageStep::Paste("x &\n".to_owned()),
        command("one \\\n  more", &["first"]),
        command("two", &[]),
        command("three", &["…"]),
    ];
    assert_eq!(page.steps(), expected);
    assert_eq!(page.blocks[1].line, 6);
}
