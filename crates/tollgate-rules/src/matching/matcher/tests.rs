//! Tests that the index finds the same rules as checking each, without allocating.

use std::net::IpAddr;

use proptest::prelude::*;

use super::*;
use crate::Request;
use crate::compile::expr::{Expr, Scope, UndeclaredNames};
use crate::compile::lists::List;
use crate::matching::request_facts::RequestReading;

fn scope() -> Scope {
    let mut scope = Scope { undeclared: UndeclaredNames::collected(), ..Scope::default() };
    scope.lists.add("office", List::new(["10.1.0.0/16", "a*"]).unwrap());
    for (name, text) in [("org", "header[\"x-org\"]"), ("big", "int(header[\"x-n\"]) > 5")] {
        let expr = Expr::compile(text, &scope).unwrap();
        scope.attributes.push((name.into(), expr));
    }
    scope
}

fn criteria(routes: &[&str], when: Option<&str>) -> MatchCriteria {
    let compile = |text| Condition::compile(text, &scope()).unwrap();
    let routes = routes.iter().map(|route| Route::parse(route).unwrap()).collect();
    MatchCriteria::new(routes, when.map(compile))
}

/// Finds the matching rules by checking each, as the reference of the index.
fn check_each(matches: &[MatchCriteria], facts: &RequestFacts<'_>, lists: &Lists) -> Vec<Hit> {
    let mut hits = Vec::new();
    for (rule, one) in matches.iter().enumerate() {
        let fits =
            |route: &Route| facts.path().is_some_and(|path| route.matches(facts.method(), path));
        let index = one.routes.iter().position(fits);
        if index.is_none() && !one.routes.is_empty() {
            continue;
        }
        let activation = Activation { facts, route: index.map(|index| &one.routes[index]), lists };
        if one.when.as_ref().is_none_or(|when| when.holds(activation)) {
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

fn rule() -> impl Strategy<Value = MatchCriteria> {
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
        "/x**",
        "GET /x/a**",
        "/{id}/ab**",
        "/*/a",
        "PUT /",
        "/x/{id}/c",
    ];
    let routes = prop::collection::vec(prop::sample::select(routes), 0..3);
    (routes, prop::option::weighted(0.8, condition()))
        .prop_map(|(routes, when)| criteria(&routes, when.as_deref()))
}

/// The parts of a request that the generated rules use.
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
        maybe(&[
            "/", "/x", "/x/a", "/x/ab", "/x/ab/c", "/x//a/", "/y/a", "/x/7", "/xy", "/xy/ab/d",
        ]),
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
    fn the_index_finds_the_same_rules_as_checking_each(
        rules in prop::collection::vec(rule(), 0..30),
        samples in prop::collection::vec(sample(), 1..20),
    ) {
        let matcher = Matcher::new(rules.clone());
        let (reading, scope) = (RequestReading::default(), scope());
        for sample in samples {
            let request = sample.request();
            let facts = RequestFacts::new(&request, &reading);
            let expected = check_each(&rules, &facts, &scope.lists);
            prop_assert_eq!(matcher.find(&facts, &scope.lists).to_vec(), expected);
        }
    }
}

fn find(matcher: &Matcher, request: &Request<'_>) -> Vec<u32> {
    let reading = RequestReading::default();
    let hits = matcher.find(&RequestFacts::new(request, &reading), &Lists::default());
    hits.iter().map(|hit| hit.rule).collect()
}

#[test]
fn the_first_matching_route_is_reported() {
    let matcher = Matcher::new(vec![criteria(&["/b", "/a/*", "/a/{id}"], None)]);
    let request = Request::new("GET", "/a/7");
    let reading = RequestReading::default();
    let hits = matcher.find(&RequestFacts::new(&request, &reading), &Lists::default());
    assert_eq!(hits.to_vec(), [Hit { rule: 0, route: Some(1) }]);
    assert_eq!(matcher.route(hits[0]).unwrap().path(), "/a/*");
}

#[test]
fn hits_are_in_the_order_of_the_file() {
    let matcher = Matcher::new(vec![
        criteria(&["/**"], None),
        criteria(&[], None),
        criteria(&[], Some("plan == \"a\"")),
        criteria(&["/a"], None),
        criteria(&[], Some("plan != \"b\"")),
    ]);
    assert_eq!(find(&matcher, &Request::new("GET", "/a").attribute("plan", "a")), [0, 1, 2, 3, 4]);
    assert_eq!(find(&matcher, &Request::new("GET", "/b")), [0, 1]);
}

#[test]
fn the_index_uses_the_criterion_that_rules_do_not_share() {
    let tenants =
        (0..100).map(|tenant| criteria(&["/api/**"], Some(&format!("org == \"t{tenant}\""))));
    let choices = index_choice::choose(&tenants.collect::<Vec<_>>());
    assert!(choices.iter().all(|choice| matches!(choice, IndexChoice::Values(_))));
    let paths = (0..100).map(|path| criteria(&[&format!("/p{path}/**")], Some("plan == \"free\"")));
    let choices = index_choice::choose(&paths.collect::<Vec<_>>());
    assert!(choices.iter().all(|choice| matches!(choice, IndexChoice::Routes)));
}

#[test]
fn more_methods_than_bits_are_still_distinguished() {
    let rules = (0..70).map(|number| criteria(&[&format!("M{number} /a")], None)).collect();
    let matcher = Matcher::new(rules);
    assert_eq!(find(&matcher, &Request::new("M69", "/a")), [69]);
    assert_eq!(find(&matcher, &Request::new("M70", "/a")), Vec::<u32>::new());
}

#[test]
fn matching_plain_attributes_allocates_nothing() {
    let mut rules: Vec<MatchCriteria> = (0..50)
        .map(|number| match number % 5 {
            0 => criteria(&[&format!("GET /v1/r{number}/{{id}}")], None),
            1 => criteria(&[], Some(&format!("org == \"t{number}\""))),
            2 => criteria(&["/v1/**"], Some(&format!("plan in [\"p{number}\", \"q*\"]"))),
            3 => criteria(&[], Some(&format!("n == {number} && ip in [\"10.{number}.0.0/16\"]"))),
            _ => criteria(&[], Some(&format!("path.startsWith(\"/v{number}\")"))),
        })
        .collect();
    rules.push(criteria(&[], Some("n > 2 && !(plan == \"x\") && ip != \"10.0.0.1\"")));
    let matcher = Matcher::new(rules);
    let request = Request::new("GET", "/v1/r5/7")
        .peer("10.8.0.1".parse().unwrap())
        .header("X-Org", "t1")
        .attribute("plan", "p2")
        .attribute("n", 8);
    let (reading, lists) = (RequestReading::default(), Lists::default());
    let facts = RequestFacts::new(&request, &reading);
    let mut hits = Hits::new();
    // Tests in other threads of the process may allocate meanwhile, but not every time.
    let find = || tollgate_corpus::peak_bytes(|| hits = matcher.find(&facts, &lists));
    let allocated = std::iter::repeat_with(find).take(20).min();
    let rules: Vec<u32> = hits.iter().map(|hit| hit.rule).collect();
    assert_eq!(rules, [1, 2, 5, 8, 50]);
    assert_eq!(allocated, Some(0));
}
