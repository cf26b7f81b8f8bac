//! Tests of the trees of valid YAML and the errors about invalid YAML.

use super::{YamlNode, YamlValue, parse};

/// Renders a tree in one line, with quotes around texts that have them in the source.
fn render(node: &YamlNode<'_>) -> String {
    match &node.value {
        YamlValue::Scalar { text, plain: true } => text.to_string(),
        YamlValue::Scalar { text, plain: false } => format!("{text:?}"),
        YamlValue::List(items) => {
            format!("[{}]", items.iter().map(render).collect::<Vec<_>>().join(" "))
        }
        YamlValue::Map(pairs) => {
            let pair = |(key, value): &(YamlNode<'_>, YamlNode<'_>)| {
                format!("{}={}", render(key), render(value))
            };
            format!("{{{}}}", pairs.iter().map(pair).collect::<Vec<_>>().join(" "))
        }
    }
}

fn read(text: &str) -> String {
    match parse(text, 0) {
        Ok(node) => render(&node),
        Err(error) => format!("{} at {}", error.code, error.span.start),
    }
}

#[test]
fn valid_yaml_is_read_into_trees() {
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
fn invalid_yaml_is_refused() {
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
fn the_span_of_a_text_is_between_its_quotes_unless_it_is_escaped() {
    let span = |text: &str| {
        let root = parse(text, 0).unwrap();
        let YamlValue::Map(pairs) = &root.value else { panic!("{text}") };
        let span = pairs[0].1.span;
        (&text[span.range()] == pairs[0].1.text().unwrap(), span.is_verbatim())
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
        assert_eq!(span(text), (true, true), "{text}");
    }
    for text in ["a: 'b''c'", "a: \"b\\tc\"", "a: b\n  c\n", "a: >\n  b\n  c\n", "a: |\n  b\n  c\n"]
    {
        assert_eq!(span(text), (false, false), "{text}");
    }
}

#[test]
fn collections_end_where_their_text_does() {
    let text = "a:\n  - 'b'\n  - c\n\nd: { e: f }\ng: 1\n";
    let root = parse(text, 0).unwrap();
    let YamlValue::Map(pairs) = &root.value else { panic!() };
    let spans: Vec<&str> = pairs.iter().map(|(_, value)| &text[value.span.range()]).collect();
    assert_eq!(spans, ["- 'b'\n  - c", "{ e: f }", "1"]);
}
