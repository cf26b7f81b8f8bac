//! What YAML is read as, and what is refused.

use super::{Node, Value, parse};

/// A tree in one line: texts in quotes where they were.
fn shown(node: &Node<'_>) -> String {
    match &node.value {
        Value::Scalar { text, plain: true } => text.to_string(),
        Value::Scalar { text, plain: false } => format!("{text:?}"),
        Value::List(items) => {
            format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(" "))
        }
        Value::Map(pairs) => {
            let pair =
                |(key, value): &(Node<'_>, Node<'_>)| format!("{}={}", shown(key), shown(value));
            format!("{{{}}}", pairs.iter().map(pair).collect::<Vec<_>>().join(" "))
        }
    }
}

fn read(text: &str) -> String {
    match parse(text, 0) {
        Ok(node) => shown(&node),
        Err(error) => format!("{} at {}", error.code, error.place.start),
    }
}

#[test]
fn trees() {
    for (text, tree) in [
        ("", ""),
        ("---\n", "~"),
        ("a: 1\nb: [x, 'y', \"z\\n\"]\n", "{a=1 b=[x \"y\" \"z\\n\"]}"),
        ("\u{feff}a: 1\n", "{a=1}"),
        ("a: 1\r\nb: 2\r\n", "{a=1 b=2}"),
        ("a: |\n  two\n  lines\n", "{a=\"two\\nlines\\n\"}"),
        ("a: &x [1]\nb: *x\n&k c: *k\n", "{a=[1] b=[1] c=c}"),
        ("a: !!str 1\nb: !!map {}\n", "{a=\"1\" b={}}"),
        ("--- \na: 1\n...\n", "{a=1}"),
        ("'<<': 1\n<<: 2\n", "{\"<<\"=1 <<=2}"),
    ] {
        assert_eq!(read(text), tree, "{text:?}");
    }
}

#[test]
fn what_is_refused() {
    for (text, error) in [
        ("a: 1\n--- \nb: 2\n", "several-documents at 5"),
        ("a: !x 1\n", "tag at 3"),
        ("a: *x\n", "bad-alias at 3"),
        ("a: &x [*x]\n", "bad-alias at 7"),
        ("a:\n\t- b\n", "yaml at 4"),
        ("%YAML 1.2\n---\n", "yaml at 0"),
        ("a: [1\n", "yaml at 3"),
    ] {
        assert_eq!(read(text), error, "{text:?}");
    }
}

#[test]
fn a_text_stands_between_its_quotes_unless_it_is_spelled_otherwise() {
    let place = |text: &str| {
        let root = parse(text, 0).unwrap();
        let Value::Map(pairs) = &root.value else { panic!("{text}") };
        let place = pairs[0].1.place;
        (&text[place.range()] == pairs[0].1.text().unwrap(), place.is_verbatim())
    };
    for text in [
        "a: b c\n",
        "a: |\n  b c\n",
        "a: 'b c'\n",
        "a: \"b c\"",
        "a: b c # d",
        "{a: b c }",
        "é: 'ü'",
    ] {
        assert_eq!(place(text), (true, true), "{text}");
    }
    for text in ["a: 'b''c'", "a: \"b\\tc\"", "a: b\n  c\n", "a: >\n  b\n  c\n", "a: |\n  b\n  c\n"]
    {
        assert_eq!(place(text), (false, false), "{text}");
    }
}

#[test]
fn collections_end_where_their_text_does() {
    let text = "a:\n  - 'b'\n  - c\n\nd: { e: f }\ng: 1\n";
    let root = parse(text, 0).unwrap();
    let Value::Map(pairs) = &root.value else { panic!() };
    let written: Vec<&str> = pairs.iter().map(|(_, value)| &text[value.place.range()]).collect();
    assert_eq!(written, ["- 'b'\n  - c", "{ e: f }", "1"]);
}
