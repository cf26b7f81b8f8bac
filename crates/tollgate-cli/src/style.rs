//! Colours of the output: on a terminal unless `NO_COLOR` is set, elsewhere if `CLICOLOR_FORCE` is.

use std::fmt;

/// Whether output is coloured, decided once for each stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    on: bool,
}

/// The meaning of a text, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Allowed,
    Denied,
    Bad,
    Bold,
    Dim,
}

/// A text with its colour.
struct Painted<T>(T, Option<&'static str>);

/// Blue and orange, as in the plots: distinguishable with colour blindness too.
const BLUE: &str = "\x1b[34m";
const ORANGE: &str = "\x1b[33m";
const RED: &str = "\x1b[1;31m";
const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

impl Style {
    /// Returns the style for a stream: coloured on a terminal unless the environment forbids it.
    pub(crate) fn when(terminal: bool) -> Style {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let refused = set("NO_COLOR").is_some();
        let forced = set("CLICOLOR_FORCE").is_some_and(|value| value != "0");
        let dumb = set("TERM").is_some_and(|term| term == "dumb");
        Style { on: !refused && (forced || terminal && !dumb) }
    }

    /// Returns whether output is coloured.
    pub(crate) fn is_on(self) -> bool {
        self.on
    }

    /// Returns a text in the colour of its tone.
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

    /// Returns a text in the colour of allowed requests.
    pub(crate) fn allowed(self, text: impl fmt::Display) -> impl fmt::Display {
        self.tone(Tone::Allowed, text)
    }

    /// Returns a text in the colour of denied requests.
    pub(crate) fn denied(self, text: impl fmt::Display) -> impl fmt::Display {
        self.tone(Tone::Denied, text)
    }

    /// Returns a text in the colour of errors.
    pub(crate) fn bad(self, text: impl fmt::Display) -> impl fmt::Display {
        self.tone(Tone::Bad, text)
    }

    /// Returns a bold text, for headings.
    pub(crate) fn bold(self, text: impl fmt::Display) -> impl fmt::Display {
        self.tone(Tone::Bold, text)
    }

    /// Returns a dimmed text, for details.
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
