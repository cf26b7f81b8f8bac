//! The tree and the interpreter give the same results, on random expressions and requests.

use proptest::prelude::*;

use super::*;
use crate::Request;
use crate::matching::request_facts::RequestReading;

/// Generates names, some of which a request has.
fn name() -> impl Strategy<Value = String> {
    let names =
        ["a", "b", "n", "flag", "missing", "ip", "header[\"h\"]", "param.id", "cost", "twice"];
    prop::sample::select(names.to_vec()).prop_map(str::to_owned)
}

fn literal() -> impl Strategy<Value = String> {
    let texts = ["", "a", "ab", "7", "007", "-3", "true", "10.0.0.1", "x*"];
    prop_oneof![
        prop::sample::select(texts.to_vec()).prop_map(|text| format!("{text:?}")),
        (-4..9_i64).prop_map(|number| number.to_string()),
        Just("9223372036854775807".to_owned()),
        any::<bool>().prop_map(|flag| flag.to_string()),
    ]
}

fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![name(), literal()];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let operator = prop::sample::select(vec!["+", "-", "*", "/", "%"]);
        prop_oneof![
            (inner.clone(), operator, inner.clone())
                .prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            inner.clone().prop_map(|a| format!("-({a})")),
            (inner.clone(), inner.clone(), inner)
                .prop_map(|(c, a, b)| format!("({c} ? {a} : {b})")),
        ]
    })
}

fn condition() -> impl Strategy<Value = String> {
    let comparison = prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]);
    let test = prop::sample::select(vec!["startsWith", "endsWith", "contains"]);
    let leaf = prop_oneof![
        4 => (value(), comparison, value()).prop_map(|(a, op, b)| format!("{a} {op} {b}")),
        1 => (name(), literal(), literal()).prop_map(|(a, b, c)| format!("{a} in [{b}, {c}]")),
        1 => (value(), "[a7*]{0,1}").prop_map(|(a, text)| format!("{a} in [{:?}]", format!("{text}*"))),
        1 => value().prop_map(|a| format!("{a} in lists.some")),
        1 => value().prop_map(|a| format!("({a}) in [\"10.0.0.0/8\", \"b\"]")),
        1 => (name(), test, "[a7-]{0,2}").prop_map(|(a, test, text)| format!("{a}.{test}({text:?})")),
        1 => (name(), "[a7]{1,2}").prop_map(|(a, text)| format!("{a}.matches(\"^{text}?\")")),
        1 => name().prop_map(|a| format!("has({a})")),
        1 => value(),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) && ({b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) || ({b})")),
            inner.clone().prop_map(|a| format!("!({a})")),
            (inner.clone(), inner.clone(), inner)
                .prop_map(|(c, a, b)| format!("({c}) ? ({a}) : ({b})")),
        ]
    })
}

fn request() -> impl Strategy<Value = Request<'static>> {
    let texts = ["", "a", "ab", "7", "007", " 7 ", "-3", "true", "false", "10.0.0.1"];
    let text = || prop::option::of(prop::sample::select(texts.to_vec()));
    let number = prop::option::of(prop_oneof![-4..9_i64, Just(i64::MAX), Just(i64::MIN)]);
    let peer =
        prop::option::of(prop::sample::select(vec!["10.0.0.1", "::ffff:10.0.0.1", "2001:db8::1"]));
    (text(), text(), text(), number, prop::option::of(any::<bool>()), peer).prop_map(
        |(a, b, header, n, flag, peer)| {
            let mut request = Request::new("GET", "/7").cost(3);
            if let Some(a) = a {
                request = request.attribute("a", a);
            }
            if let Some(b) = b {
                request = request.attribute("b", b);
            }
            if let Some(header) = header {
                request = request.header("H", header);
            }
            if let Some(n) = n {
                request = request.attribute("n", n);
            }
            if let Some(flag) = flag {
                request = request.attribute("flag", flag);
            }
            request.peer = peer.map(|peer| peer.parse().unwrap());
            request
        },
    )
}

fn scope() -> Scope {
    let mut scope = Scope { undeclared: UndeclaredNames::collected(), ..Scope::default() };
    scope.lists.add("some", List::new(["a*", "7", "10.0.0.0/8"]).unwrap());
    let twice = Expr::compile("n * 2", &scope).unwrap();
    scope.attributes.push(("twice".into(), twice));
    scope
}

/// Whether the interpreter evaluates any part of a tree.
fn is_interpreted(node: &ExprNode) -> bool {
    format!("{node:?}").contains("Cel(")
}

fn compare(text: &str, request: &Request<'_>) -> Result<(), TestCaseError> {
    let scope = scope();
    let plain = lower::condition(text, &scope);
    let interpreted = lower::interpreted(text, &scope);
    prop_assert_eq!(plain.as_ref().err(), interpreted.as_ref().err(), "{}", text);
    let (Ok(plain), Ok(interpreted)) = (plain, interpreted) else { return Ok(()) };
    prop_assert!(!is_interpreted(&plain), "{} should need no interpreter", text);
    let reading = RequestReading::default();
    let facts = RequestFacts::new(request, &reading);
    let route = Route::parse("/{id}").unwrap();
    let activation = Activation { facts: &facts, route: Some(&route), lists: &scope.lists };
    prop_assert_eq!(plain.truth(activation), interpreted.truth(activation), "{}", text);
    // The interpreter has texts for addresses.
    let spelled = |value: Option<Value<'_>>| match value {
        Some(Value::Ip(address)) => Some(Value::from(address.to_string())),
        Some(Value::Text(text)) => Some(Value::from(text.into_owned())),
        Some(Value::Number(number)) => Some(Value::Number(number)),
        Some(Value::Flag(flag)) => Some(Value::Flag(flag)),
        None => None,
    };
    prop_assert_eq!(
        spelled(plain.value(activation)),
        spelled(interpreted.value(activation)),
        "{}",
        text
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn conditions_agree(text in condition(), request in request()) {
        compare(&text, &request)?;
    }

    #[test]
    fn values_agree(text in value(), request in request()) {
        compare(&text, &request)?;
    }
}
