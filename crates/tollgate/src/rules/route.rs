//! Routes: `POST /orders/{id}`, `/static/**`.

use std::fmt;

use super::fault::Fault;

/// Methods and a pattern of paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// Any method if empty.
    methods: Vec<Box<str>>,
    path: Box<str>,
    segments: Vec<Segment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    Literal(Box<str>),
    /// `{id}`, or `*` without a name: one segment.
    Any(Option<Box<str>>),
    /// `**`: the rest, however long.
    Rest,
}

impl Route {
    /// Reads `[METHOD[|METHOD]] /path`.
    pub(crate) fn parse(text: &str) -> Result<Route, Fault> {
        let text = text.trim();
        let (methods, path) = match text.split_once(char::is_whitespace) {
            Some((methods, path)) => (methods.split('|').map(Into::into).collect(), path.trim_start()),
            None => (Vec::new(), text),
        };
        let Some(inner) = path.strip_prefix('/') else {
            let start = text.len() - path.len();
            return Err(Fault::new(start..text.len(), "a path begins with a slash"));
        };
        let segment = |segment: &str| match segment {
            "**" => Segment::Rest,
            "*" => Segment::Any(None),
            _ => match segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
                Some(name) => Segment::Any(Some(name.into())),
                None => Segment::Literal(segment.into()),
            },
        };
        let segments = inner.split('/').filter(|part| !part.is_empty()).map(segment).collect();
        Ok(Route { methods, path: path.into(), segments })
    }

    pub(crate) fn methods(&self) -> &[Box<str>] {
        &self.methods
    }

    /// The pattern, as written.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// What stands for `{name}` in a path that matches.
    pub(crate) fn param<'p>(&self, path: &'p str, name: &str) -> Option<&'p str> {
        let named = |segment: &Segment| matches!(segment, Segment::Any(Some(known)) if &**known == name);
        let index = self.segments.iter().position(named)?;
        path.split('/').filter(|part| !part.is_empty()).nth(index)
    }

    pub(crate) fn matches(&self, method: Option<&str>, path: &str) -> bool {
        let method_fits = self.methods.is_empty()
            || method.is_some_and(|method| self.methods.iter().any(|known| &**known == method));
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        method_fits
            && self.segments.iter().all(|segment| match segment {
                Segment::Literal(literal) => parts.next() == Some(literal),
                Segment::Any(_) => parts.next().is_some(),
                Segment::Rest => {
                    parts.by_ref().for_each(drop);
                    true
                }
            })
            && parts.next().is_none()
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.methods.is_empty() {
            write!(f, "{} ", self.methods.join("|"))?;
        }
        f.write_str(&self.path)
    }
}
