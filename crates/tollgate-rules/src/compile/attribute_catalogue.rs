//! The attributes that exist without a declaration, and the door that supplies each.
//!
//! A rule can name only these, and those that its file declares under `attributes:`. Any other name
//! is an error: no request would have the attribute, and all clients would share one counter.

use crate::compile::attribute::Attribute;
use crate::compile::door::Door;

/// The attribute that names where a request is sent on to.
pub(crate) const UPSTREAM: &str = "upstream";

/// The attribute that selects the plan of a request.
pub(crate) const PLAN: &str = "plan";

/// The built-in names that are parts of a request, which a file cannot define.
pub(crate) const BUILT_IN: [&str; 11] = [
    "method", "path", "host", "ip", "peer", "endpoint", "cost", "header", "query", "cookie",
    "param",
];

/// The built-in maps, whose values have names of their own.
pub(crate) const MAPS: [&str; 4] = ["header", "query", "cookie", "param"];

/// The known names that some doors supply, and that a file may define.
const KNOWN: [&str; 3] = [PLAN, UPSTREAM, "scheme"];

/// The groups of names that need no declaration: fields of the body, claims of a verified token.
const OPEN_GROUPS: [&str; 2] = ["body", "jwt"];

/// The group of names for the verified API key of a request.
const API_KEY: &str = "apikey";
const API_KEY_FIELDS: [&str; 2] = ["name", "plan"];

/// The group of names for the outcome of a request.
const RESPONSE: &str = "response";
const RESPONSE_FIELDS: [&str; 3] = ["status", "bytes", "duration"];
const RESPONSE_MAPS: [&str; 2] = ["header", "body"];

/// The groups of names, of which a rule names one field.
pub(crate) const GROUPS: [&str; 4] = ["body", "jwt", API_KEY, RESPONSE];

/// Whether a name that is no part of a request itself exists without a declaration.
pub(crate) fn is_known(name: &str) -> bool {
    match name.split_once('.') {
        None => KNOWN.contains(&name),
        Some((RESPONSE, field)) => match field.split_once('.') {
            None => RESPONSE_FIELDS.contains(&field),
            Some((map, _)) => RESPONSE_MAPS.contains(&map),
        },
        Some((API_KEY, field)) => API_KEY_FIELDS.contains(&field),
        Some((group, _)) => OPEN_GROUPS.contains(&group),
    }
}

/// Iterates over the names that a misspelled one is compared with.
pub(crate) fn names_to_suggest() -> impl Iterator<Item = &'static str> {
    let scalars = BUILT_IN.into_iter().filter(|name| !MAPS.contains(name));
    let groups = ["apikey.name", "apikey.plan", "response.status", "response.bytes"];
    scalars.chain(KNOWN).chain(groups).chain(["response.duration"])
}

impl Door {
    /// Returns the groups of attributes that a door supplies if its settings name the keys of tokens
    /// or a file of API keys, which rules cannot know.
    pub(crate) fn supplied_by_settings(self) -> &'static [&'static str] {
        match self {
            Door::Gateway | Door::Auth => &["jwt.*", "apikey.*"],
            _ => &[],
        }
    }

    /// Whether requests through this door can have an attribute: the door knows it, or its callers
    /// send it along.
    pub(crate) fn supplies(self, attribute: &Attribute) -> bool {
        let Attribute::Named(name) = attribute else { return true };
        let group = name.split_once('.').map_or(&**name, |(group, _)| group);
        match (self, group) {
            (Door::Library, _) => true,
            // What a door does not report of the outcome, it reports about `count` and `cost.settle`.
            (_, RESPONSE) => true,
            (Door::Gateway, UPSTREAM | "body") => true,
            (_, UPSTREAM) => false,
            (Door::Auth, "scheme") => true,
            (Door::Gateway | Door::Auth | Door::Layer, _) => false,
            (Door::Http | Door::Grpc | Door::Resp, _) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_nothing_supplies_are_not_known() {
        for known in ["plan", "upstream", "body.model", "jwt.sub", "apikey.plan", "response.status"]
        {
            assert!(is_known(known), "{known}");
        }
        assert!(is_known("response.header.x-tokens") && is_known("response.body.usage.total"));
        for unknown in [
            "org",
            "IP",
            "request.path",
            "response.staus",
            "apikey.user",
            "response",
            "body",
            "jwt",
        ] {
            assert!(!is_known(unknown), "{unknown}");
        }
    }

    #[test]
    fn proxies_know_the_request_and_callers_send_the_rest() {
        let named = |name: &str| Attribute::Named(name.into());
        for door in Door::ALL {
            assert!(door.supplies(&Attribute::Ip) && door.supplies(&Attribute::Header("a".into())));
            let sees_callers = !matches!(door, Door::Gateway | Door::Auth | Door::Layer);
            assert_eq!(door.supplies(&named("org")), sees_callers, "{door:?}");
            assert_eq!(door.supplies(&named("jwt.sub")), sees_callers, "{door:?}");
        }
        assert!(
            Door::Gateway.supplies(&named("body.model")) && !Door::Auth.supplies(&named("body.x"))
        );
        assert!(Door::Auth.supplies(&named("scheme")) && !Door::Grpc.supplies(&named(UPSTREAM)));
    }
}
