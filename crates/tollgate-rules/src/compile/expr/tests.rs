//! Tests of the values of expressions and of the errors about invalid ones.

use super::*;
use crate::Request;
use crate::matching::request_facts::RequestReading;

fn scope() -> Scope {
    let mut scope = Scope { undeclared: UndeclaredNames::collected(), ..Scope::default() };
    scope.lists.add("office", List::new(["203.0.113.0/24", "svc-*"]).unwrap());
    for (name, text) in [
        ("org", "header[\"X-Org\"]"),
        ("tenant", "org"),
        ("size", "int(header[\"x-size\"]) + 1"),
        ("vip", "plan in [\"pro\", \"max\"]"),
    ] {
        let expr = Expr::compile(text, &scope).unwrap();
        scope.attributes.push((name.into(), expr));
    }
    scope
}

fn request() -> Request<'static> {
    Request::new("POST", "/orders/7?page=2")
        .peer("203.0.113.7".parse().unwrap())
        .header("X-Org", "acme")
        .header("x-size", "41")
        .header("x-roles", "dev, admin")
        .attribute("plan", "pro")
        .attribute("status", 403)
        .attribute("beta", true)
        .attribute("body.user.id", "u1")
}

fn activation<T>(
    request: &Request<'_>,
    scope: &Scope,
    run: impl FnOnce(Activation<'_, '_>) -> T,
) -> T {
    let reading = RequestReading::default();
    let facts = RequestFacts::new(request, &reading);
    let route = Route::parse("/orders/{id}").unwrap();
    run(Activation { facts: &facts, route: Some(&route), lists: &scope.lists })
}

fn holds(text: &str) -> bool {
    let scope = scope();
    let condition =
        Condition::compile(text, &scope).unwrap_or_else(|fault| panic!("{text}: {fault:?}"));
    activation(&request(), &scope, |activation| condition.holds(activation))
}

fn value(text: &str) -> Option<String> {
    let scope = scope();
    let expr = Expr::compile(text, &scope).unwrap_or_else(|fault| panic!("{text}: {fault:?}"));
    activation(&request(), &scope, |activation| {
        expr.value(activation).map(|value| value.text().into_owned())
    })
}

#[test]
fn conditions_are_evaluated() {
    for text in [
        "plan == \"pro\"",
        "org == \"acme\" && tenant == 'acme'",
        "vip",
        "beta && !(plan == \"free\")",
        "ip == \"::ffff:203.0.113.7\"",
        "ip in [\"203.0.113.0/24\"] && ip in lists.office",
        "!(ip in [\"10.0.0.0/8\"])",
        "plan in [\"free\", \"p*\"]",
        "status in [401, 403] && status == 403 && status >= 400",
        "header[\"x-size\"] > 40 && header[\"x-size\"] == 41",
        "header[\"x-size\"] in [41]",
        "path.startsWith(\"/orders\") && path.endsWith(\"7\") && path.contains(\"rde\")",
        "path.matches(\"^/orders/[0-9]+$\")",
        "has(plan) && has(header[\"x-org\"]) && has(jwt.sub) == false && has(param.id)",
        "param.id == 7 && query[\"page\"] == \"2\" && method == \"POST\"",
        "missing == 1 || plan == \"pro\"",
        "body.user.id == \"u1\" && body[\"user\"][\"id\"] == \"u1\"",
        "size == 42",
        "header[\"x-roles\"].split(\", \").exists(role, role == \"admin\")",
        "[\"acme\", \"x\"].exists(name, name == org)",
        "header[\"x-org\"].lowerAscii() in [\"ac*\"]",
        "[org, \"x\"].all(name, name in [\"acme\", \"x\"])",
        "plan.size() == 3 && size(plan) < 4",
        "[1, 2].map(n, n * 2) == [2, 4]",
        "1.5 < 2.0 && double(status) > 402.5",
    ] {
        assert!(holds(text), "{text}");
    }
    for text in [
        "plan == \"free\"",
        "missing == 1",
        "missing != 1",
        "!(missing == 1)",
        "!missing",
        "plan",
        "plan == 3",
        "plan < 3 || plan >= 3",
        "status / 0 == 1",
        "missing.startsWith(\"a\")",
        "missing.split(\",\").exists(role, role == \"admin\")",
        "header[\"x-org\"] in [\"ACME\"]",
        "int(plan) == 3 || int(plan) != 3",
    ] {
        assert!(!holds(text), "{text}");
    }
}

#[test]
fn values_are_evaluated() {
    for (text, expected) in [
        ("plan", Some("pro")),
        ("org", Some("acme")),
        ("plan == \"pro\" ? 10 : 1", Some("10")),
        ("missing ? 10 : 1", None),
        ("status * 2 - 6 / 4 % 2", Some("805")),
        ("-status", Some("-403")),
        ("org + \":\" + plan", Some("acme:pro")),
        ("cost + 1", Some("2")),
        ("max(1, header[\"x-size\"])", Some("41")),
        ("min(status, 7)", Some("7")),
        ("double(status) / 2.0", Some("202")),
        ("9223372036854775807 + status", None),
        ("[1, 2]", None),
        ("ip", Some("203.0.113.7")),
        ("beta", Some("true")),
    ] {
        assert_eq!(value(text).as_deref(), expected, "{text}");
    }
}

#[test]
fn an_alias_resolves_to_its_attribute() {
    let scope = scope();
    let tenant = Expr::compile("tenant", &scope).unwrap();
    assert_eq!(tenant.attribute(), Some(&Attribute::Header("x-org".into())));
    assert_eq!(Expr::compile("vip", &scope).unwrap().attribute(), None);
    let all = Expr::compile("vip && size > 3 && ip in lists.office", &scope).unwrap();
    let attributes: Vec<String> = all.attributes().iter().map(ToString::to_string).collect();
    assert_eq!(attributes, ["plan", "header[\"x-size\"]", "ip"]);
}

#[test]
fn fields_match_by_pattern() {
    let span = SourceSpan::default();
    let fields = |pairs: &[(&str, &[&str])]| {
        let at = |text: &&str| Spanned::new((*text).to_owned(), span);
        let fields: Vec<_> =
            pairs.iter().map(|(name, any)| (at(name), any.iter().map(at).collect())).collect();
        Condition::fields(&fields, &scope())
    };
    let holds = |pairs: &[(&str, &[&str])]| {
        let condition = fields(pairs).unwrap();
        activation(&request(), &scope(), |activation| condition.holds(activation))
    };
    assert!(holds(&[("plan", &["free", "p*o"]), ("org", &["acme"]), ("ip", &["203.0.113.0/24"])]));
    assert!(holds(&[("plan", &["*"]), ("status", &["403"]), ("beta", &["true"])]));
    assert!(!holds(&[("plan", &["pro"]), ("org", &["other"])]));
    assert!(!holds(&[("missing", &["*"])]));
    assert!(fields(&[("ip", &["10.0.0.0/99"])]).is_err());
    assert!(fields(&[("a ==", &["b"])]).is_err());
    assert!(fields(&[("a + b", &["b"])]).is_err());
}

#[test]
fn errors_point_at_their_source() {
    let long = format!("plan == \"{}\"", "x".repeat(1024));
    let deep = format!("{}a{}", "!(1 == ".repeat(20), ")".repeat(20));
    let chain = vec!["a"; 40].join("+");
    let large = "path.matches(\"(\\\\w{50}){50}\")";
    for (text, span, fix) in [
        ("", "", None),
        (long.as_str(), long.as_str(), None),
        (&deep, &deep, None),
        (&chain, &chain, None),
        ("plan = \"a\"", "=", Some("==")),
        ("a and b", "and", Some("&&")),
        ("a or b", "or", Some("||")),
        ("plan ==", "", None),
        ("in", "in", None),
        ("ip in lists.ofice", "ofice", Some("office")),
        ("ip in lists.other", "other", None),
        ("lists.office", "lists", None),
        ("plan.startWith(\"a\")", "startWith", Some("startsWith")),
        ("frobnicate(plan)", "frobnicate", None),
        ("header == \"a\"", "header", None),
        ("ip.v4 == 1", "ip", None),
        ("has(1 + 2)", "has", None),
        ("ip == \"10.0.0.0/8\"", "\"10.0.0.0/8\"", None),
        ("ip in [\"10.0.0.0/40\"]", "\"10.0.0.0/40\"", None),
        ("path.matches(\"(\")", "\"(\"", None),
        (large, "\"(\\\\w{50}){50}\"", None),
        ("path.matches(plan)", "matches", None),
        ("plan.replace(\"a\", \"b\")", "replace", None),
        ("[1].map(x, [2].map(y, x))", "[1].map(x, [2].map(y, x))", None),
        ("[1].map(x)", "map", None),
        ("\"unfinished", "\"", None),
    ] {
        let fault = Condition::compile(text, &scope()).expect_err(text);
        assert_eq!(&text[fault.range.clone()], span, "{text}: {}", fault.message);
        assert_eq!(fault.fix.as_deref(), fix, "{text}: {}", fault.message);
    }
}

#[test]
fn nested_attributes_cannot_grow_without_bound() {
    let mut scope = Scope { undeclared: UndeclaredNames::collected(), ..Scope::default() };
    let mut previous = "header[\"a\"]".to_owned();
    let refused = (0..10).find_map(|level| {
        let text = format!("({previous} + {previous}) + ({previous} + {previous})");
        let expr = Expr::compile(&text, &scope).err();
        if expr.is_none() {
            previous = format!("a{level}");
            let expr = Expr::compile(&text, &scope).unwrap();
            scope.attributes.push((previous.as_str().into(), expr));
        }
        expr
    });
    assert!(refused.unwrap().message.contains("steps"));
}

#[test]
fn a_file_of_costly_patterns_is_refused() {
    let scope = Scope::default();
    let large = "path.matches(\"\\\\w{50}\")";
    let compile = |text: &str| Condition::compile(text, &scope).map_err(|fault| fault.message);
    assert_eq!(compile(large).unwrap_err(), "this pattern is too large");
    let refused: Vec<String> = (0..100).map(|_| compile(large).unwrap_err()).collect();
    assert_eq!(refused[99], "all patterns of a file together are too large");
    assert!(compile("plan == \"a\"").is_ok());
    assert!(Condition::compile("path.matches(\"a+\")", &Scope::default()).is_ok());
}

#[test]
fn a_pattern_that_occurs_again_costs_nothing() {
    let scope = Scope::default();
    let compile = |text: &str| Condition::compile(text, &scope);
    assert!((0..1_000).all(|_| compile("path.matches(\"a+\")").is_ok()));
    let others = (0..1_000).find_map(|n| compile(&format!("path.matches(\"a{n}\")")).err());
    assert_eq!(others.unwrap().message, "all patterns of a file together are too large");
}

#[test]
fn a_file_of_long_expressions_is_refused() {
    let scope = Scope::default();
    let long = vec!["ip == 1"; 90].join(" && ");
    let last = (0..1_000).find_map(|_| Condition::compile(&long, &scope).err());
    assert_eq!(last.unwrap().message, "all expressions of a file together are too long");
    assert!(Condition::compile("plan == 1", &scope).is_err(), "later expressions are refused, too");
    assert!(Expr::compile("plan", &scope).is_ok(), "names cost nothing");

    let scope = Scope::default();
    let messages = (0..1_000).map(|_| Condition::compile("f(plan)", &scope).unwrap_err().message);
    let detailed = messages.filter(|message| message.contains("function")).count();
    assert!((100..600).contains(&detailed), "{detailed}");
}
