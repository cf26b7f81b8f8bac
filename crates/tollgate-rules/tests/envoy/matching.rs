//! Rows 1 to 3: the descriptor of the file that matches a request.

use super::service::serve;

/// Each limit has another number of requests, by which tests recognise it.
const FILE: &str = "
domain: d
descriptors:
  - { key: k, rate_limit: { unit: day, requests_per_unit: 1 } }
  - { key: k, value: ab*, rate_limit: { unit: day, requests_per_unit: 2 } }
  - { key: k, value: abc, rate_limit: { unit: day, requests_per_unit: 3 } }
  - { key: k, value: a*c, rate_limit: { unit: day, requests_per_unit: 4 } }
  - { key: k, value: '*.pdf', rate_limit: { unit: day, requests_per_unit: 5 } }
  - { key: path, value: /api/*/resource/*/action, rate_limit: { unit: day, requests_per_unit: 6 } }
  - { key: white, value: listed }
  - { key: white, rate_limit: { unit: day, requests_per_unit: 7 } }
";

#[test]
fn row_01_exact_before_wildcards_in_file_order_before_the_bare_key() {
    let service = serve(FILE);
    for (value, limit) in [
        ("abc", 3),    // exact, although two wildcards before it match
        ("abd", 2),    // the only wildcard
        ("abxc", 2),   // two wildcards match: the first in the file applies
        ("axc", 4),    // the second
        ("x", 1),      // only the key matches
        ("", 1),       // an empty value is a value
        ("ABC", 1),    // case matters
        ("ab.pdf", 2), // the first in the file, although the other is longer
        ("x.pdf", 5),
    ] {
        assert_eq!(service.limit(&[("k", value)]), Some(limit), "{value:?}");
    }
    assert_eq!(service.limit(&[("kk", "abc")]), None);
}

#[test]
fn row_01_matching_does_not_return_to_the_default_branch() {
    let service = serve(
        "
domain: d
descriptors:
  - key: k
    value: v
    descriptors:
      - { key: inner, rate_limit: { unit: day, requests_per_unit: 1 } }
  - key: k
    value: w*
    descriptors:
      - { key: inner, value: x, rate_limit: { unit: day, requests_per_unit: 2 } }
  - key: k
    descriptors:
      - { key: other, rate_limit: { unit: day, requests_per_unit: 3 } }
      - { key: inner, rate_limit: { unit: day, requests_per_unit: 4 } }
",
    );
    assert_eq!(service.limit(&[("k", "v"), ("inner", "x")]), Some(1));
    assert_eq!(service.limit(&[("k", "z"), ("other", "x")]), Some(3));
    // Only the default branch has these.
    assert_eq!(service.limit(&[("k", "v"), ("other", "x")]), None);
    assert_eq!(service.limit(&[("k", "w1"), ("inner", "y")]), None);
}

#[test]
fn row_01_an_entry_without_a_limit_lets_its_value_pass() {
    let service = serve(FILE);
    assert_eq!(service.limit(&[("white", "listed")]), None);
    assert_eq!(service.limit(&[("white", "other")]), Some(7));
}

#[test]
fn row_02_stars_match_any_text_anywhere_even_empty_text() {
    let service = serve(FILE);
    for (value, limit) in [
        ("/api/v1/resource/123/action", Some(6)),
        ("/api//resource//action", Some(6)),
        ("/api/a/b/resource/c/d/action", Some(6)),
        ("/api/v1/resource/action", None), // the slashes cannot be shared
        ("/api/v1/resource/123/actions", None),
        ("/API/v1/resource/123/action", None),
    ] {
        assert_eq!(service.limit(&[("path", value)]), limit, "{value:?}");
    }
    let service = serve(
        "
domain: d
descriptors:
  - { key: k, value: a*b*c, rate_limit: { unit: day, requests_per_unit: 1 } }
  - { key: k, value: x*x, rate_limit: { unit: day, requests_per_unit: 2 } }
  - { key: k, value: y**z, rate_limit: { unit: day, requests_per_unit: 3 } }
",
    );
    for (value, limit) in [
        ("abc", Some(1)),
        ("a-b-c", Some(1)),
        ("a-c-b-c", Some(1)),
        ("acb", None),
        ("ac", None),
        ("xx", Some(2)),
        ("x", None), // one letter cannot be both ends
        ("yz", Some(3)),
        ("y", None),
    ] {
        assert_eq!(service.limit(&[("k", value)]), limit, "{value:?}");
    }
}

const JOINED: &str = "
domain: d
descriptors:
  - { key: a, value: b, rate_limit: { unit: day, requests_per_unit: 1 } }
  - { key: foo, value: '*', rate_limit: { unit: day, requests_per_unit: 2 } }
  - { key: 'wild*', rate_limit: { unit: day, requests_per_unit: 3 } }
  - { key: c_d, value: e, rate_limit: { unit: day, requests_per_unit: 4 } }
";

#[test]
fn row_02_key_and_value_are_matched_as_one_text() {
    let service = serve(JOINED);
    for (key, value, limit) in [
        ("a", "b", Some(1)),
        ("a_b", "anything", Some(1)), // its key alone matches
        ("a_b", "", Some(1)),
        ("foo_bar", "x", Some(2)), // foo_* matches foo_bar_x
        ("foo", "", Some(2)),
        ("foobar", "x", None),
        ("wild", "x", Some(3)),
        ("wilder", "y", Some(3)),
        ("c", "d_e", Some(4)),
        ("c_d", "e", Some(4)),
    ] {
        assert_eq!(service.limit(&[(key, value)]), limit, "{key} {value}");
    }
}

#[test]
fn row_02_strict_files_match_keys_with_keys_and_values_with_values() {
    let service = serve(&format!("strict: true{JOINED}"));
    for (key, value, limit) in [
        ("a", "b", Some(1)),
        ("a_b", "anything", None),
        ("foo_bar", "x", None),
        ("foo", "", Some(2)),
        ("foo", "bar_x", Some(2)),
        ("wild", "x", Some(3)),
        ("wilder", "y", Some(3)),
        ("c", "d_e", None),
        ("c_d", "e", Some(4)),
    ] {
        assert_eq!(service.limit(&[(key, value)]), limit, "{key} {value}");
    }
    let ambiguous = "
strict: yes
domain: d
descriptors:
  - { key: a, value: b_c, rate_limit: { unit: day, requests_per_unit: 1 } }
  - { key: a_b, value: c, rate_limit: { unit: day, requests_per_unit: 2 } }
  - { key: '*x', rate_limit: { unit: day, requests_per_unit: 3 } }
";
    let service = serve(ambiguous); // the original refuses this as a duplicate
    assert_eq!(service.limit(&[("a", "b_c")]), Some(1));
    assert_eq!(service.limit(&[("a_b", "c")]), Some(2));
    assert_eq!(service.limit(&[("prefix", "v")]), Some(3));
    assert_eq!(service.limit(&[("other", "x")]), None); // the value ends in x, but the key does not
}

#[test]
fn row_03_the_limit_at_exactly_the_depth_of_the_request_applies() {
    let service = serve(
        "
domain: d
descriptors:
  - key: k
    value: v
    rate_limit: { unit: day, requests_per_unit: 1 }
    descriptors:
      - key: middle
        descriptors:
          - { key: leaf, rate_limit: { unit: day, requests_per_unit: 2 } }
",
    );
    assert_eq!(service.limit(&[("k", "v")]), Some(1));
    assert_eq!(service.limit(&[("k", "v"), ("middle", "x")]), None); // no limit: passes
    assert_eq!(service.limit(&[("k", "v"), ("middle", "x"), ("leaf", "y")]), Some(2));
    assert_eq!(service.limit(&[("k", "v"), ("middle", "x"), ("leaf", "y"), ("more", "z")]), None);
    assert_eq!(service.limit(&[("middle", "x"), ("leaf", "y")]), None);
    assert_eq!(service.limit(&[]), None);
}
