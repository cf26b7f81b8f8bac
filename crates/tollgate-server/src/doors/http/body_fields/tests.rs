//! Tests of reading bodies.

use super::*;
use tollgate_rules::Value;

fn error_of(body: &str, fields: FieldNames) -> String {
    read(body.as_bytes(), fields).unwrap_err().to_string()
}

#[test]
fn the_texts_of_a_check_are_borrowed_from_the_body() {
    let body = br#"{"domain":"shop","attributes":{"ip":"1.2.3.4","n":7,"vip":true,"x":1.5,"big":18446744073709551615,"e":"a\"b"},"cost":3.0}"#;
    let fields = read(body, FieldNames::CHECK).unwrap();
    assert_eq!((fields.request.domain.as_deref(), fields.cost), (Some("shop"), Some(3)));
    let texts: Vec<_> =
        fields.request.attributes.iter().map(|(_, value)| value.text().into_owned()).collect();
    assert_eq!(texts, ["1.2.3.4", "7", "true", "1.5", "18446744073709551615", "a\"b"]);
    assert!(matches!(fields.request.attributes[0].1, Value::Text(Cow::Borrowed(_))));
}

#[test]
fn errors_name_the_field() {
    for (body, fields, expected) in [
        ("", FieldNames::CHECK, "the body: EOF"),
        ("[]", FieldNames::CHECK, "`domain`, `attributes` and `cost`"),
        ("{} x", FieldNames::CHECK, "trailing characters"),
        (r#"{"cots":1}"#, FieldNames::CHECK, "unknown field `cots`"),
        (r#"{"key":"a"}"#, FieldNames::CHECK, "unknown field `key`"),
        (
            r#"{"cost":0}"#,
            FieldNames::CHECK,
            "`cost`: invalid value: integer `0`, expected a whole",
        ),
        (r#"{"cost":-1}"#, FieldNames::CHECK, "`cost`: invalid type: integer `-1`"),
        (r#"{"cost":1.5}"#, FieldNames::CHECK, "`cost`: invalid value: floating"),
        (r#"{"cost":99999999999999999999}"#, FieldNames::CHECK, "`cost`: "),
        (r#"{"cost":9007199254740992}"#, FieldNames::CHECK, "to 9007199254740991"),
        (r#"{"cost":1,"cost":2}"#, FieldNames::CHECK, "`cost`: it is there twice"),
        (
            r#"{"attributes":{"a":1,"a":2}}"#,
            FieldNames::CHECK,
            r#"`attributes`: "a" is there twice"#,
        ),
        (r#"{"attributes":{"a":null}}"#, FieldNames::CHECK, "a text, a number, true or false"),
        (r#"{"attributes":{"a":{}}}"#, FieldNames::CHECK, "`attributes`"),
        (
            r#"{"domain":7}"#,
            FieldNames::CHECK,
            "`domain`: invalid type: integer `7`, expected a text",
        ),
        (r#"{"requests":[{},{"cost":0}]}"#, FieldNames::BATCH, "`requests[1].cost`"),
        (r#"{"requests":{}}"#, FieldNames::BATCH, "`requests`"),
        (r#"{"cost":-3}"#, FieldNames::SETTLE, "`cost`"),
        (r#"{"amount":-3}"#, FieldNames::SETTLE, "`amount`"),
        (r#"{"cost":1,"amount":1}"#, FieldNames::SETTLE, "`amount`: `cost` is there too"),
        (r#"{"amount":1,"amount":1}"#, FieldNames::SETTLE, "`amount`: `cost` is there too"),
        (r#"{"amount":1}"#, FieldNames::PEEK, "unknown field `amount`"),
        (r#"{"limit":[]}"#, FieldNames::LIMIT, "`limit`: the list has no limit"),
        (r#"{"limit":["1/s",2]}"#, FieldNames::LIMIT, "`limit`: invalid type: integer `2`"),
        (r#"{"limit":7}"#, FieldNames::LIMIT, "a limit such as \"10/s burst 20\", or a list"),
        (r#"{"limit":"1/s","limit":["1/s"]}"#, FieldNames::LIMIT, "`limit`: it is there twice"),
    ] {
        let error = error_of(body, fields);
        assert!(error.contains(expected), "{body}: {error}");
    }
}

#[test]
fn a_cost_may_be_called_amount_and_limits_may_be_several() {
    let fields =
        read(br#"{"key":"a","limit":["10/s","100\u002fh"],"amount":3}"#, FieldNames::LIMIT);
    let fields = fields.unwrap();
    assert_eq!((fields.cost, &fields.limits[..]), (Some(3), &["10/s".into(), "100/h".into()][..]));
    let one = read(br#"{"limit":"10/s"}"#, FieldNames::LIMIT).unwrap();
    assert_eq!(&one.limits[..], ["10/s"]);
    assert_eq!(read(br#"{"cost":0}"#, FieldNames::SETTLE).unwrap().cost, Some(0));
}

#[test]
fn every_list_and_text_is_bounded() {
    let attributes: Vec<_> = (0..65).map(|number| format!("\"a{number}\":1")).collect();
    let many = format!("{{\"attributes\":{{{}}}}}", attributes.join(","));
    assert!(error_of(&many, FieldNames::CHECK).contains("more than 64"));
    let long = format!("{{\"key\":\"{}\"}}", "k".repeat(1025));
    assert!(error_of(&long, FieldNames::LIMIT).contains("at most 1024"));
    let many = format!("{{\"limit\":[{}]}}", ["\"1/s\""; 9].join(","));
    assert!(error_of(&many, FieldNames::LIMIT).contains("more than 8 limits"));
    let many = format!("{{\"requests\":[{}]}}", vec!["{}"; MAX_BATCH_REQUESTS + 1].join(","));
    assert!(error_of(&many, FieldNames::BATCH).contains("more than 1000"));
    let deep = format!("{{\"attributes\":{}", "[".repeat(100_000));
    assert!(error_of(&deep, FieldNames::CHECK).contains("`attributes`"));
}
