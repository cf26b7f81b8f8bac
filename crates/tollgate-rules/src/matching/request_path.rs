//! The path of a request in every form that a server may route it by.
//!
//! Servers differ in three things: whether case matters, whether `;x=y` belongs to a segment, and
//! whether an escaped slash separates segments. Rules settle the first two for a domain; for the
//! third a path has several forms, and a rule that limits applies if one of them matches.

use std::borrow::Cow;

use crate::matching::path::{self, EncodedSlashes};

/// The settings by which a domain reads paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathReading {
    /// Whether `/LOGIN` is `/login`.
    pub(crate) ignores_case: bool,
    /// Whether `/login;x=y` is `/login`.
    pub(crate) strips_params: bool,
    /// Whether `path` is `/login/` for a request to `/login/`. Routes match it in either case.
    pub(crate) keeps_slash: bool,
}

impl Default for PathReading {
    fn default() -> PathReading {
        PathReading { ignores_case: true, strips_params: true, keeps_slash: false }
    }
}

impl PathReading {
    /// Returns the spelling of a literal segment of a route, which request paths have.
    pub(crate) fn literal(self, segment: &str) -> Cow<'_, str> {
        let segment = match self.strips_params {
            true => segment.split(';').next().unwrap_or_default(),
            false => segment,
        };
        match self.ignores_case {
            true => path::fold(segment).map_or(Cow::Borrowed(segment), Cow::Owned),
            false => Cow::Borrowed(segment),
        }
    }
}

/// One form of a path: normalised, with and without its case.
#[derive(Debug)]
pub(crate) struct PathForm<'r> {
    text: Cow<'r, str>,
    /// The text without its case, if that differs and case is ignored.
    folded: Option<String>,
}

impl<'r> PathForm<'r> {
    fn new(text: Cow<'r, str>, reading: PathReading) -> PathForm<'r> {
        let folded = if reading.ignores_case { path::fold(&text) } else { None };
        PathForm { text, folded }
    }

    /// Returns the form by which routes match and keys are made.
    pub(crate) fn matched(&self) -> &str {
        self.folded.as_deref().unwrap_or(&self.text)
    }

    /// Returns the form with its case, from which parameters are taken.
    pub(crate) fn cased(&self) -> &str {
        &self.text
    }
}

/// The path of a request.
#[derive(Debug)]
pub(crate) struct RequestPath<'r> {
    /// The form in which escaped slashes separate segments.
    pub(crate) main: PathForm<'r>,
    /// The forms in which they do not; none without such slashes.
    pub(crate) others: Vec<PathForm<'static>>,
}

impl<'r> RequestPath<'r> {
    /// Reads the path of a target.
    pub(crate) fn new(target: &'r str, reading: PathReading) -> RequestPath<'r> {
        let path = path::without_query(target);
        if path::is_plain(path) {
            let main = PathForm { text: Cow::Borrowed(path), folded: None };
            return RequestPath { main, others: Vec::new() };
        }
        RequestPath::unusual(path, reading)
    }

    #[cold]
    fn unusual(path: &'r str, reading: PathReading) -> RequestPath<'r> {
        let form = |slashes| {
            let text = path::normalize(path, slashes, reading);
            PathForm::new(text, reading)
        };
        let main = form(EncodedSlashes::Separate);
        let (has_slash, has_backslash) = path::encoded_slashes(path);
        let mut others: Vec<PathForm<'static>> = Vec::new();
        let mut add = |slashes| {
            let PathForm { text, folded } = form(slashes);
            if text != main.text {
                others.push(PathForm { text: Cow::Owned(text.into_owned()), folded });
            }
        };
        if has_slash && has_backslash {
            add(EncodedSlashes::KeepBackslash);
        }
        if has_slash || has_backslash {
            add(EncodedSlashes::Keep);
        }
        RequestPath { main, others }
    }

    /// Iterates over the forms of the path.
    pub(crate) fn forms(&self) -> impl Iterator<Item = &PathForm<'_>> {
        std::iter::once(&self.main).chain(&self.others)
    }

    /// Returns a form by its number, the main one being 0.
    pub(crate) fn form(&self, number: usize) -> Option<&PathForm<'_>> {
        self.forms().nth(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forms(target: &str, reading: PathReading) -> Vec<String> {
        let path = RequestPath::new(target, reading);
        path.forms().map(|form| form.matched().to_owned()).collect()
    }

    #[test]
    fn an_escaped_slash_is_read_in_both_ways() {
        let default = PathReading::default();
        assert_eq!(forms("/search/a%2Fb", default), ["/search/a/b", "/search/a%2Fb"]);
        assert_eq!(forms("/search/a\\b", default), ["/search/a/b", "/search/a%5Cb"]);
        let both = ["/a/b/c", "/a/b%5Cc", "/a%2Fb%5Cc"];
        assert_eq!(forms("/a%2fb%5cc", default), both);
        assert_eq!(forms("/a%252fb", default), ["/a%252fb"]);
    }

    #[test]
    fn case_and_parameters_are_settings() {
        let default = PathReading::default();
        assert_eq!(forms("/LOGIN;x=y/Caf%C3%A9", default), ["/login/caf%C3%A9"]);
        assert_eq!(forms("/x/..;/admin/y", default), ["/admin/y"]);
        let exact = PathReading { ignores_case: false, strips_params: false, ..default };
        assert_eq!(forms("/LOGIN;x=y", exact), ["/LOGIN;x=y"]);
        let params = PathReading { ignores_case: false, ..default };
        assert_eq!(forms("/LOGIN;x=y", params), ["/LOGIN"]);
        let keeps = PathReading { keeps_slash: true, ..default };
        for (target, path) in [
            ("/a/", "/a/"),
            ("/a//", "/a/"),
            ("/a/.", "/a/"),
            ("/a/b/..", "/a/"),
            ("/a/;x?y", "/a/"),
            ("/a", "/a"),
            ("/", "/"),
            ("//", "/"),
            ("/a/..", "/"),
        ] {
            assert_eq!(forms(target, keeps), [path], "{target}");
            assert_eq!(
                forms(target, default),
                [path.trim_end_matches('/')].map(|path| if path.is_empty() { "/" } else { path })
            );
        }
        let path = RequestPath::new("/Files/aB3", default);
        assert_eq!((path.main.matched(), path.main.cased()), ("/files/ab3", "/Files/aB3"));
    }
}
