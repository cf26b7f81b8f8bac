//! Colours, where they help: on a terminal, unless `NO_COLOR` is set; elsewhere too if
//! `CLICOLOR_FORCE` is.

use std::fmt;

/// Whether to colour, decided once for each stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    on: bool,
}

/// What a piece of text is, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Allowed,
    Denied,
    Bad,
    Bold,
    Dim,
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
    /// Colours if the stream is a terminal and nobody asked for none, or somebody asked for them.
    pub(crate) fn when(terminal: bool) -> Style {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let refused = set("NO_COLOR").is_some();
        let forced = set("CLICOLOR_FORCE").is_some_and(|value| value != "0");
        let dumb = set("TERM").is_some_and(|term| term == "dumb");
        Style { on: !refused && (forced || terminal && !dumb) }
    }

    /// Whether there are colours at all.
    pub(crate) fn is_on(self) -> bool {
        self.on
    }

    /// A text in the colour of its tone.
    pub(crate) fn tone(self, tone: Tone, text: impl fmt::Display) -> impl fmt::Display {
        let colour = match tone {
            Tone::Plain => None,
            Tone::Allowed => Some(BLUE),
            Tone::Denied => Some(ORANGE),
            Tone::Bad => Some(RED),
            Tone::Bold => Some(BOLD),
            Tone::Dim => Some(DIM),
        };
        Painted(text, colour.filter(|_| self.on))
    }

    /// What passed.
    pub(crate) fn allowed(self, text: impl fmt::Display) -> impl fmt::Display {
        self.tone(Tone::Allowed, text)
    }

    /// What did not.
    pub(crate) fn denied(self, text: impl fmt::Display) -> impl fmt::Display {
        self.tone(Tone::Denied, text)
    }

    /// What went wrong.
    pub(crate) fn bad(self, text: impl fmt::Display) -> impl fmt::Display {
        self.tone(Tone::Bad, text)
    }

    /// Headings.
    pub(crate) fn bold(self, text: impl fmt::Display) -> impl fmt::Display {
        self.tone(Tone::Bold, text)
    }

    /// What may be overlooked.
    pub(crate) fn dim(self, text: impl fmt::Display) -> impl fmt::Display {
        self.tone(Tone::Dim, text)
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
