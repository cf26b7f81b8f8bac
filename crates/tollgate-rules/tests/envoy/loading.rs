//! Row 16: invalid files, and the diagnostics about them.

use tollgate_rules::{Finding, Severity, Source, envoy::Domains};

use super::service::{read, serve};

/// Returns the findings about a file: code, line and suggestion.
fn findings(file: &str) -> Vec<(&'static str, usize, String)> {
    match read(&[file]) {
        Ok(domains) => advice(domains.warnings()),
        Err(diagnostics) => advice(&diagnostics),
    }
}

fn advice(diagnostics: &tollgate_rules::Diagnostics) -> Vec<(&'static str, usize, String)> {
    let suggestion =
        |finding: &Finding<'_>| finding.replacement.or(finding.help).unwrap_or_default().to_owned();
    diagnostics
        .findings()
        .map(|finding| (finding.code, finding.line, suggestion(&finding)))
        .collect()
}

fn codes(file: &str) -> Vec<&'static str> {
    findings(file).into_iter().map(|(code, ..)| code).collect()
}

/// Returns a file with one descriptor.
fn with_descriptor(descriptor: &str) -> String {
    format!("domain: d\ndescriptors:\n  - {descriptor}\n")
}

fn with_limit(limit: &str) -> String {
    with_descriptor(&format!("{{ key: k, rate_limit: {{ {limit} }} }}"))
}

#[test]
fn row_16_files_that_the_original_refuses_are_refused() {
    let good = "rate_limit: { unit: day, requests_per_unit: 1 }";
    for (file, code) in [
        ("descriptors: []".to_owned(), "missing-field"),
        ("{ domain: '', descriptors: [] }".to_owned(), "missing-field"),
        ("domain: d\ndescriptors: [a]".to_owned(), "wrong-kind"),
        ("domain: d\ndescriptors: { key: k }".to_owned(), "wrong-kind"),
        ("0.25: d\ndescriptors: []\ndomain: d".to_owned(), "unknown-field"),
        ("domain: [\n".to_owned(), "yaml"),
        (with_descriptor("{ value: v }"), "empty-key"),
        (with_descriptor("{ key: '', value: v }"), "empty-key"),
        (with_descriptor("{ key: k, ratelimit: 1 }"), "unknown-field"),
        (with_descriptor("{ key: k, value: 1.5 }"), "wrong-kind"),
        (with_descriptor("{ key: k, value: 1e3 }"), "wrong-kind"),
        (with_descriptor("{ key: k, value: 0123456789 }"), "wrong-kind"),
        (with_descriptor("{ key: k, value: [v] }"), "wrong-kind"),
        (with_descriptor("{ key: k, shadow_mode: sometimes }"), "wrong-kind"),
        (with_descriptor("{ key: k, shadow_mode: 'true' }"), "wrong-kind"),
        (with_descriptor("{ key: k, metadata: gold }"), "wrong-kind"),
        (
            with_descriptor(&format!("{{ key: k, value: v, share_threshold: true, {good} }}")),
            "share-threshold",
        ),
        (with_limit("requests_per_unit: 1"), "missing-field"),
        (with_limit("unit: fortnight, requests_per_unit: 1"), "bad-unit"),
        (with_limit("unit: unknown, requests_per_unit: 1"), "bad-unit"),
        (with_limit("unit: day, requests_per_unit: 1.5"), "wrong-kind"),
        (with_limit("unit: day, requests_per_unit: '5'"), "wrong-kind"),
        (with_limit("unit: day, requests_per_unit: -1"), "bad-number"),
        (with_limit("unit: day, requests_per_unit: 4294967296"), "bad-number"),
        (with_limit("unit: day, requestsperunit: 5"), "unknown-field"),
        (with_limit("unit: day, unlimited: true"), "unlimited-with-unit"),
        (with_limit("unit: day, requests_per_unit: 1, replaces: [{ name: '' }]"), "bad-replaces"),
        (with_limit("unit: day, requests_per_unit: 1, replaces: [{}]"), "bad-replaces"),
        (
            with_limit("name: a, unit: day, requests_per_unit: 1, replaces: [{ name: a }]"),
            "bad-replaces",
        ),
        (with_limit("unit: day, requests_per_unit: 1, replaces: [a]"), "wrong-kind"),
        (
            "domain: d\ndescriptors:\n  - { key: k }\n  - { key: k }\n".to_owned(),
            "duplicate-descriptor",
        ),
        (
            "domain: d\ndescriptors:\n  - { key: a, value: b_c }\n  - { key: a_b, value: c }\n"
                .to_owned(),
            "duplicate-descriptor",
        ),
        // Fields that only tollgate has.
        (with_limit("unit: day, requests_per_unit: 1, unit_multiplier: 0"), "bad-number"),
        (with_limit("unit: day, requests_per_unit: 1, algorithm: magic"), "bad-limit"),
        (with_limit("unit: day, requests_per_unit: 1, algorithm: log, burst: 5"), "bad-limit"),
        (with_limit("unlimited: true, algorithm: gcra"), "unlimited-with-unit"),
        (with_limit("unit: day, requests: 1"), "unknown-field"),
    ] {
        let diagnostics = read(&[&file]).expect_err(&file);
        let codes: Vec<_> = diagnostics.errors().map(|error| error.code()).collect();
        assert_eq!(codes, [code], "{file}\n{diagnostics}");
    }
}

#[test]
fn row_16_a_domain_has_one_file() {
    let file = "domain: d\ndescriptors: []\n";
    let diagnostics = read(&[file, "domain: other\ndescriptors: []\n", file]).unwrap_err();
    let errors: Vec<_> = diagnostics.findings().map(|error| (error.code, error.file)).collect();
    assert_eq!(errors, [("duplicate-domain", "2.yaml")]);
    // The short form cannot add to that file either.
    let short = "{ domain: d, key: k, rate_limit: { unit: day, requests: 1 } }";
    assert!(read(&[file, short]).is_err());
}

#[test]
fn row_16_an_invalid_file_changes_nothing() {
    let mut service = serve(&with_limit("unit: day, requests_per_unit: 3"));
    service.hit(&[("k", "ann")]);
    if let Ok(domains) = read(&[&with_limit("unit: day, requests_per_unit: many")]) {
        service.domains = domains;
    }
    assert_eq!(service.hit(&[("k", "ann")]).limit_remaining, 1);
}

#[test]
fn files_that_the_original_accepts_are_accepted() {
    for file in [
        "domain: d\ndescriptors:\n".to_owned(),
        "domain: 7\ndescriptors: []\n".to_owned(),
        with_descriptor("{ key: k, value: 123, rate_limit: }"),
        with_descriptor("{ key: k, value: 50.0.0.5 }"),
        with_descriptor("{ key: k, value: true, detailed_metric: yes, value_to_metric: off }"),
        with_limit("unit: DAY, requests_per_unit: 0x10"),
        with_limit("unit: day, requests_per_unit: 1_000"),
        with_limit("unit: '', unlimited: true, requests_per_unit: 5"),
        "domain: d\ndescriptors:\n  - { key: k, metadata: { any: [1.5, { thing: ~ }] } }\n"
            .to_owned(),
    ] {
        assert_eq!(codes(&file), [""; 0], "{file}");
    }
}

#[test]
fn aliases_and_merged_mappings_are_read() {
    let service = serve(
        "
domain: d
descriptors:
  - key: a
    rate_limit: &limit { unit: day, requests_per_unit: 5 }
  - { key: b, rate_limit: *limit }
  - { key: c, rate_limit: { <<: *limit, requests_per_unit: 7 } }
  - { key: e, rate_limit: { requests_per_unit: 8, <<: [*limit] } }
",
    );
    let limits = ["a", "b", "c", "e"].map(|key| service.limit(&[(key, "x")]));
    assert_eq!(limits, [Some(5), Some(5), Some(7), Some(8)]);
}

#[test]
fn fields_that_the_original_ignores_raise_a_warning() {
    let misplaced = with_limit("unit: day, requests_per_unit: 1, shadow_mode: true");
    assert_eq!(codes(&misplaced), ["misplaced-field"]);
    let twice = "domain: d\ndescriptors:\n  - key: k\n    key: l\n";
    assert_eq!(codes(twice), ["duplicate-key"]);
    assert_eq!(codes(&with_limit("unit: day")), ["no-requests"]);
    let unknown = with_limit("unit: day, requests_per_unit: 1, replaces: [{ name: unknown }]");
    assert_eq!(codes(&unknown), ["unknown-name"]);
    let diagnostics = read(&[&misplaced]).unwrap();
    assert!(diagnostics.warnings().iter().all(|warning| warning.severity() == Severity::Warning));
}

#[test]
fn all_errors_are_reported_at_once_with_suggestions() {
    let file = "domain: shop
descriptors:
  - key: remote_adress
    rate_limt: { unit: minute, requests_per_unit: 5 }
  - key: user
    rate_limit: { unit: minutes, requests: 5 }
  - key: version
    value: 1.10
  - key: api
    rate_limit: { unit: hour, requests_per_unit: 5, algorithm: sliding_windows }
  - key: user
";
    let expected = [
        ("unknown-field", 4, "rate_limit"),
        ("bad-unit", 6, "minute"),
        ("unknown-field", 6, "requests_per_unit"),
        ("wrong-kind", 8, "\"1.10\""),
        ("bad-limit", 10, "sliding_window"),
        ("duplicate-descriptor", 11, ""),
    ];
    let mut diagnostics = findings(file);
    diagnostics.retain(|(code, ..)| *code != "no-requests");
    assert_eq!(diagnostics, expected.map(|(code, line, help)| (code, line, help.to_owned())));
}

/// Compares the report about `bad.yaml` with `bad.txt`.
#[test]
fn findings_point_at_their_source() {
    let diagnostics =
        Domains::read([Source::new("bad.yaml", include_str!("bad.yaml"))]).unwrap_err();
    assert_eq!(diagnostics.to_string(), include_str!("bad.txt").trim_end());
}
