//! The index finds what asking every rule finds, and allocates nothing on the way.

use std::net::IpAddr;

use proptest::prelude::*;

use super::super::Request;
use super::super::address::Trust;
use super::super::expr::{Expr, Scope};
use super::super::lists::List;
use super::*;

fn scope() -> Scope {
    let mut scope = Scope::default();
    scope.lists.add("office", List::new(["10.1.0.0/16", "a*"]).unwrap());
    for (name, text) in [("org", "header[\"x-org\"]"), ("big", "int(header[\"x-n\"]) > 5")] {
        let expr = Expr::compile(text, &scope).unwrap();
        scope.attributes.push((name.into(), expr));
    }
    scope
}

fn one(routes: &[&str], when: Option<&str>) -> Match {
    let compile = |text| Condition::compile(text, &scope()).unwrap();
    Match {
        routes: routes.iter().map(|route| Route::parse(route).unwrap()).collect(),
        when: when.map(compile),
    }
}

/// The definition: every rule is asked.
fn one_by_one(matches: &[Match], facts: &Facts<'_>, lists: &Lists) -> Vec<Hit> {
    let mut hits = Vec::new();
    for (rule, one) in matches.iter().enumerate() {
        let fits =
            |route: &Route| facts.path().is_some_and(|path| route.matches(facts.method(), path));
        let index = one.routes.iter().position(fits);
        if index.is_none() && !one.routes.is_empty() {
            continue;
        }
        let on = On { facts, route: index.map(|index| &one.routes[index]), lists };
        if one.when.as_ref().is_none_or(|when| when.holds(on)) {
            hits.push(Hit { rule: rule as u32, route: index.map(|index| index as u32) });
        }
    }
    hits
}

fn condition() -> impl Strategy<Value = String> {
    let attribute = || prop::sample::select(vec!["org", "plan", "path", "n", "beta", "param.id"]);
    let text = || prop::sample::select(vec!["a", "ab", "b", "7", "007", "true", "/x/a", "a*"]);
    let network = prop::sample::select(vec!["10.0.0.0/8", "10.1.2.3", "10.1.0.0/16", "::/0"]);
    let simple = prop_oneof![
        (attribute(), text()).prop_map(|(name, text)| format!("{name} == {text:?}")),
        (attribute(), -1..9_i64).prop_map(|(name, number)| format!("{name} == {number}")),
        (attribute(), text(), text()).prop_map(|(name, a, b)| format!("{name} in [{a:?}, {b:?}]")),
        (attribute(), text(), 0..9).prop_map(|(name, a, b)| format!("{name} in [{a:?}, {b}]")),
        (attribute(), text()).prop_map(|(name, text)| format!("{name} != {text:?}")),
        (attribute(), "[ab*]{0,2}").prop_map(|(name, text)| format!("{name}.startsWith({text:?})")),
        (attribute(), "[ab*]{0,2}").prop_map(|(name, text)| format!("{name}.endsWith({text:?})")),
        (attribute(), "[ab]{0,1}\\*[ab]{0,1}")
            .prop_map(|(name, glob)| format!("{name} in [{glob:?}]")),
        network.prop_map(|network| format!("ip in [{network:?}]")),
        Just("ip == \"10.1.2.3\"".to_owned()),
        Just("ip in lists.office".to_owned()),
        Just("beta".to_owned()),
        Just("big".to_owned()),
        Just("n > 3".to_owned()),
    ];
    let joined = prop::collection::vec(simple, 1..4);
    (joined, prop::bool::weighted(0.7))
        .prop_map(|(parts, all)| parts.join(if all { " && " } else { " || " }))
}

fn rule() -> impl Strategy<Value = Match> {
    let routes = vec![
        "/x/{id}",
        "/x/*",
        "GET /x/a",
        "POST /x/a",
        "GET|POST /x/**",
        "/**",
        "/x",
        "/x/a*",
        "/x/*b/c",
        "/*/a",
        "PUT /",
        "/x/{id}/c",
    ];
    let routes = prop::collection::vec(prop::sample::select(routes), 0..3);
    (routes, prop::option::weighted(0.8, condition()))
        .prop_map(|(routes, when)| one(&routes, when.as_deref()))
}

/// Whatever of a request rules look at.
#[derive(Clone, Debug)]
struct Sample {
    method: Option<&'static str>,
    path: Option<&'static str>,
    org: Option<&'static str>,
    n: Option<Result<i64, &'static str>>,
    plan: Option<&'static str>,
    beta: Option<bool>,
    peer: Option<&'static str>,
}

fn sample() -> impl Strategy<Value = Sample> {
    let maybe = |all: &[&'static str]| prop::option::of(prop::sample::select(all.to_vec()));
    let number = prop_oneof![
        (-1..9_i64).prop_map(Ok),
        prop::sample::select(vec!["7", "007", "a", " 3 "]).prop_map(Err)
    ];
    (
        maybe(&["GET", "POST", "PUT", "get"]),
        maybe(&["/", "/x", "/x/a", "/x/ab", "/x/ab/c", "/x//a/", "/y/a", "/x/7"]),
        maybe(&["a", "ab", "b", "7", "007", "a*", "true"]),
        prop::option::of(number),
        maybe(&["a", "b", "7"]),
        prop::option::of(any::<bool>()),
        maybe(&["10.1.2.3", "10.2.2.2", "::ffff:10.1.2.3", "2001:db8::1"]),
    )
        .prop_map(|(method, path, org, n, plan, beta, peer)| Sample {
            method,
            path,
            org,
            n,
            plan,
            beta,
            peer,
        })
}

impl Sample {
    fn request(&self) -> Request<'static> {
        let mut request = Request::empty();
        (request.method, request.target) = (self.method, self.path);
        if let Some(org) = self.org {
            request = request.header("X-Org", org).header("x-n", org);
        }
        request = match self.n {
            Some(Ok(number)) => request.attribute("n", number),
            Some(Err(text)) => request.attribute("n", text),
            None => request,
        };
        if let Some(plan) = self.plan {
            request = request.attribute("plan", plan);
        }
        if let Some(beta) = self.beta {
            request = request.attribute("beta", beta);
        }
        request.peer = self.peer.map(|peer| peer.parse::<IpAddr>().unwrap());
        request
    }
}

proptest! {
    #[test]
    fn the_index_finds_what_asking_every_rule_finds(
        rules in prop::collection::vec(rule(), 0..30),
        samples in prop::collection::vec(sample(), 1..20),
    ) {
        let matcher = Matcher::new(rules.clone());
        let (trust, scope) = (Trust::default(), scope());
        for sample in samples {
            let request = sample.request();
            let facts = Facts::new(&request, &trust);
            let expected = one_by_one(&rules, &facts, &scope.lists);
            prop_assert_eq!(matcher.find(&facts, &scope.lists).to_vec(), expected);
        }
    }
}

fn find(matcher: &Matcher, request: &Request<'_>) -> Vec<u32> {
    let trust = Trust::default();
    let hits = matcher.find(&Facts::new(request, &trust), &Lists::default());
    hits.iter().map(|hit| hit.rule).collect()
}

#[test]
fn the_first_route_that_fits_is_the_one() {
    let matcher = Matcher::new(vec![one(&["/b", "/a/*", "/a/{id}"], None)]);
    let request = Request::new("GET", "/a/7");
    let trust = Trust::default();
    let hits = matcher.find(&Facts::new(&request, &trust), &Lists::default());
    assert_eq!(hits.to_vec(), [Hit { rule: 0, route: Some(1) }]);
    assert_eq!(matcher.route(hits[0]).unwrap().path(), "/a/*");
}

#[test]
fn hits_come_in_the_order_of_the_file() {
    let matcher = Matcher::new(vec![
        one(&["/**"], None),
        one(&[], None),
        one(&[], Some("plan == \"a\"")),
        one(&["/a"], None),
        one(&[], Some("plan != \"b\"")),
    ]);
    assert_eq!(find(&matcher, &Request::new("GET", "/a").attribute("plan", "a")), [0, 1, 2, 3, 4]);
    assert_eq!(find(&matcher, &Request::new("GET", "/b")), [0, 1]);
}

#[test]
fn rules_that_share_a_route_are_told_apart_by_what_they_do_not_share() {
    let tenants = (0..100).map(|tenant| one(&["/api/**"], Some(&format!("org == \"t{tenant}\""))));
    let places = place::places(&tenants.collect::<Vec<_>>());
    assert!(places.iter().all(|place| matches!(place, Place::Values(_))));
    let paths = (0..100).map(|path| one(&[&format!("/p{path}/**")], Some("plan == \"free\"")));
    let places = place::places(&paths.collect::<Vec<_>>());
    assert!(places.iter().all(|place| matches!(place, Place::Routes)));
}

#[test]
fn more_methods_than_bits_are_still_told_apart() {
    let rules = (0..70).map(|number| one(&[&format!("M{number} /a")], None)).collect();
    let matcher = Matcher::new(rules);
    assert_eq!(find(&matcher, &Request::new("M69", "/a")), [69]);
    assert_eq!(find(&matcher, &Request::new("M70", "/a")), Vec::<u32>::new());
}

#[test]
fn matching_plain_attributes_allocates_nothing() {
    let mut rules: Vec<Match> = (0..50)
        .map(|number| match number % 5 {
            0 => one(&[&format!("GET /v1/r{number}/{{id}}")], None),
            1 => one(&[], Some(&format!("org == \"t{number}\""))),
            2 => one(&["/v1/**"], Some(&format!("plan in [\"p{number}\", \"q*\"]"))),
            3 => one(&[], Some(&format!("n == {number} && ip in [\"10.{number}.0.0/16\"]"))),
            _ => one(&[], Some(&format!("path.startsWith(\"/v{number}\")"))),
        })
        .collect();
    rules.push(one(&[], Some("n > 2 && !(plan == \"x\") && ip != \"10.0.0.1\"")));
    let matcher = Matcher::new(rules);
    let request = Request::new("GET", "/v1/r5/7")
        .peer("10.8.0.1".parse().unwrap())
        .header("X-Org", "t1")
        .attribute("plan", "p2")
        .attribute("n", 8);
    let (trust, lists) = (Trust::default(), Lists::default());
    let facts = Facts::new(&request, &trust);
    let mut hits = Hits::new();
    let counted = allocation_counter::measure(|| hits = matcher.find(&facts, &lists));
    let rules: Vec<u32> = hits.iter().map(|hit| hit.rule).collect();
    assert_eq!(rules, [1, 2, 5, 8, 50]);
    assert_eq!(counted.count_total, 0);
}
