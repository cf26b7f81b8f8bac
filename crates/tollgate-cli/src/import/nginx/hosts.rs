//! The hosts of servers as conditions. nginx takes the server with the exact name, then the longest
//! wildcard before a name, then the longest behind one, then the default server.

use super::server::Server;
use crate::import::condition::{Condition, Pattern};
use crate::import::glob;

/// Returns the condition that one of some servers gets a request.
pub(super) fn condition(servers: &[Server<'_>], chosen: &[usize]) -> Condition {
    if servers.len() <= 1 || chosen.len() == servers.len() {
        return Condition::always();
    }
    let names = |wanted: bool| -> Vec<&Pattern> {
        let servers = servers.iter().enumerate();
        let servers = servers.filter(|(index, _)| chosen.contains(index) == wanted);
        servers.flat_map(|(_, server)| &server.hosts).collect()
    };
    let (own, others) = (names(true), names(false));
    if chosen.iter().any(|index| servers[*index].is_default) {
        // A name of both is on another port there, which rules cannot tell: the limit applies.
        let others: Vec<&Pattern> = others.into_iter().filter(|name| !own.contains(name)).collect();
        if others.is_empty() {
            return Condition::always();
        }
        let missing = Condition::Missing("host".to_owned());
        return Condition::Any(vec![missing, among(&others, &own).not()]);
    }
    among(&own, &others)
}

/// Returns the condition that a host has one of some names, and no better one of the others.
fn among(names: &[&Pattern], others: &[&Pattern]) -> Condition {
    let is = |names: Vec<&Pattern>| {
        Condition::Is("host".to_owned(), names.into_iter().cloned().collect())
    };
    let (exact, wild): (Vec<&Pattern>, Vec<&Pattern>) =
        names.iter().copied().partition(|name| matches!(name, Pattern::Exact(_)));
    let is_better =
        |other: &&&Pattern| !names.contains(other) && wild.iter().any(|name| precedes(other, name));
    let better: Vec<&Pattern> = others.iter().filter(is_better).copied().collect();
    match (better.is_empty(), exact.is_empty()) {
        (true, _) => is(names.to_vec()),
        (false, true) => is(wild).and(is(better).not()),
        (false, false) => Condition::Any(vec![is(exact), is(wild).and(is(better).not())]),
    }
}

/// Whether some host has both names, and nginx prefers the first.
fn precedes(one: &Pattern, wildcard: &Pattern) -> bool {
    let Pattern::Glob(wildcard) = wildcard else { return false };
    match one {
        Pattern::Exact(name) => glob::matches(wildcard, name),
        Pattern::Glob(name) => {
            let is_before = |name: &str| name.starts_with('*');
            glob::may_overlap(name, wildcard)
                && (is_before(name), name.len()) > (is_before(wildcard), wildcard.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn better_names_are_excluded_from_wildcards() {
        let glob = |text: &str| Pattern::Glob(text.to_owned());
        let exact = |text: &str| Pattern::Exact(text.to_owned());
        let (wide, narrow, name) = (glob("*.a.com"), glob("*.b.a.com"), exact("x.a.com"));
        let condition = among(&[&wide], &[&narrow, &name, &exact("y.com")]);
        let text = r#"host in ["*.a.com"] && !(host in ["*.b.a.com", "x.a.com"])"#;
        assert_eq!(condition.expression(), text);
        assert_eq!(among(&[&narrow], &[&wide]).expression(), r#"host in ["*.b.a.com"]"#);
        assert_eq!(among(&[&name], &[&wide]).expression(), r#"host == "x.a.com""#);
        let both = among(&[&wide, &exact("z.b.a.com")], &[&narrow]).expression();
        let text = r#"host == "z.b.a.com" || (host in ["*.a.com"] && !(host in ["*.b.a.com"]))"#;
        assert_eq!(both, text);
        assert!(precedes(&wide, &glob("www.*")) && !precedes(&glob("www.*"), &wide));
    }
}
