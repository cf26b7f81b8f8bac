//! Colours, where they help: on a terminal, unless `NO_COLOR` is set.

use std::fmt;

/// Whether to colour, decided once for each stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    on: bool,
}

/// A text in its colour.
struct Painted<T>(T, Option<&'static str>);

/// Blue and orange, as in the plots: told apart by the colour-blind too.
const BLUE: &str = "\x1b[34m";
const ORANGE: &str = "\x1b[33m";
const RED: &str = "\x1b[1;31m";
const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

impl Style {
    /// Colours if the stream is a terminal and nobody asked for none.
    pub(crate) fn when(terminal: bool) -> Style {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Style { on: terminal && !refused && !dumb }
    }

    fn paint(self, text: impl fmt::Display, colour: &'static str) -> impl fmt::Display {
        Painted(text, self.on.then_some(colour))
    }

    /// What passed.
    pub(crate) fn allowed(self, text: impl fmt::Display) -> impl fmt::Display {
        self.paint(text, BLUE)
    }

    /// What did not.
    pub(crate) fn denied(self, text: impl fmt::Display) -> impl fmt::Display {
        self.paint(text, ORANGE)
    }

    /// What went wrong.
    pub(crate) fn bad(self, text: impl fmt::Display) -> impl fmt::Display {
        self.paint(text, RED)
    }

    /// Headings.
    pub(crate) fn bold(self, text: impl fmt::Display) -> impl fmt::Display {
        self.paint(text, BOLD)
    }

    /// What may be overlooked.
    pub(crate) fn dim(self, text: impl fmt::Display) -> impl fmt::Display {
        self.paint(text, DIM)
    }
}

impl<T: fmt::Display> fmt::Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Some(colour) => write!(f, "{colour}{}{PLAIN}", self.0),
            None => self.0.fmt(f),
        }
    }
}
