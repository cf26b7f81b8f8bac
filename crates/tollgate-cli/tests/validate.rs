//! `tollgate validate`: findings as text and JSON, and exit codes.

mod support;

use support::{folder, json, path, tollgate, tollgate_in};

const GOOD: &str = "domain: shop\nrules:\n  - { name: edge, per: ip, limit: 10/s burst 20 }\n";
const BAD: &str = "domain: shop\nrules:\n  - { nmae: edge, per: ip, limit: 10/m }\n";

#[test]
fn valid_rules_have_a_summary() {
    let folder = folder(&[("shop.yaml", GOOD)]);
    let file = path(&folder, "shop.yaml");
    let run = tollgate(&["validate", &file], "");
    let expected = format!("✓ {file}: 1 domain, 1 rule, 1 limit, 0 warnings\n");
    assert_eq!((run.code, run.stdout, run.stderr.as_str()), (0, expected, ""));
    let run = tollgate(&["validate", "-"], GOOD);
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (0, "✓ stdin: 1 domain, 1 rule, 1 limit, 0 warnings\n")
    );
    let (code, report) = json(&["validate", &file, "--json"], "");
    assert_eq!(code, 0);
    assert_eq!(report["ok"], true);
    assert_eq!(report["domains"], serde_json::json!(["shop"]));
    assert_eq!((&report["rules"], &report["findings"]), (&1.into(), &serde_json::json!([])));
}

#[test]
fn every_error_is_shown_with_its_line() {
    let folder = folder(&[("shop.yaml", BAD)]);
    let file = path(&folder, "shop.yaml");
    let run = tollgate(&["validate", &file], "");
    assert_eq!((run.code, run.stderr.as_str()), (1, ""));
    for text in [":3:7", "nmae", "10/m", "did you mean"] {
        assert!(run.stdout.contains(text), "{text}: {}", run.stdout);
    }
    assert!(!run.stdout.contains('\x1b'), "coloured without a terminal");
    let last = run.stdout.lines().last().unwrap_or_default();
    assert!(last.starts_with(&format!("✗ {file}: ")) && last.contains("errors"), "{last}");

    let (code, report) = json(&["validate", &file, "--json"], "");
    assert_eq!((code, &report["ok"]), (1, &false.into()));
    let findings = report["findings"].as_array().unwrap();
    assert_eq!(findings.len(), report["errors"].as_u64().unwrap() as usize);
    for finding in findings {
        assert_eq!((&finding["file"], &finding["line"]), (&serde_json::json!(file), &3.into()));
        assert_eq!(finding["severity"], "error");
    }
}

#[test]
fn settings_that_a_door_does_not_honour_are_reported() {
    let rules = "rules: [{ name: edge, per: ip, limit: 10/s, then: delay up to 1s }]";
    let run = tollgate(&["validate", "-", "--strict"], rules);
    let expected = "✓ stdin: 1 domain, 1 rule, 1 limit, 0 warnings\n  \
                    the grpc door does not honour 1 setting: --door grpc lists them\n  \
                    the resp door does not honour 1 setting: --door resp lists them\n";
    assert_eq!((run.code, run.stdout.as_str()), (0, expected));

    let run = tollgate(&["validate", "-", "--door", "grpc"], rules);
    assert_eq!(run.code, 0);
    for text in ["does not honour `then: delay` of \"edge\"", "stdin:1:", "1 limit, 1 warning\n"] {
        assert!(run.stdout.contains(text), "{text}: {}", run.stdout);
    }
    assert_eq!(tollgate(&["validate", "-", "--door", "grpc", "--strict"], rules).code, 1);
    assert_eq!(tollgate(&["validate", "-", "--door", "library", "--strict"], rules).code, 0);

    let (_, report) = json(&["validate", "-", "--json"], rules);
    assert_eq!(report["not_honoured"]["grpc"][0]["code"], "not-honoured");
    assert_eq!(report["not_honoured"]["http"], serde_json::json!([]));
    let (_, report) = json(&["validate", "-", "--json", "--door", "resp,http"], rules);
    assert_eq!(report["not_honoured"].as_object().unwrap().len(), 2);
    assert_eq!(tollgate(&["validate", "-", "--door", "window"], rules).code, 2);
}

#[test]
fn names_that_no_request_has_are_errors_with_a_suggestion() {
    for (per, fix) in [
        ("header.x-api-key", "header[\"x-api-key\"]"),
        ("IP", "ip"),
        ("ip_address", "ip"),
        ("'request.headers[\"x-api-key\"]'", "header[\"x-api-key\"]"),
    ] {
        let rules = format!("rules: [{{ name: edge, per: {per}, limit: 10/s }}]");
        let (code, report) = json(&["validate", "-", "--json"], &rules);
        assert_eq!((code, &report["findings"][0]["replacement"]), (1, &fix.into()), "{per}");
    }
    let rules = "rules: [{ name: edge, per: org, limit: 10/s }]";
    let run = tollgate(&["validate", "-"], rules);
    assert_eq!(run.code, 1);
    assert!(run.stdout.contains("declare it: `attributes: [org]`"), "{}", run.stdout);
    let declared = format!("attributes: [org]\n{rules}");
    assert_eq!(tollgate(&["validate", "-", "--strict"], &declared).code, 0);
}

#[test]
fn doors_that_cannot_supply_an_attribute_are_named() {
    let rules = "attributes: [org]\nrules: [{ name: edge, per: org, limit: 10/s }]";
    let run = tollgate(&["validate", "-", "--strict"], rules);
    let expected = "✓ stdin: 1 domain, 1 rule, 1 limit, 0 warnings\n  \
                    these doors cannot supply every attribute that the rules read: auth, gateway, \
                    layer; --door auth says which, and what happens there\n";
    assert_eq!((run.code, run.stdout.as_str()), (0, expected));
    let run = tollgate(&["validate", "-", "--strict", "--door", "gateway"], rules);
    assert_eq!(run.code, 1);
    for text in [
        "warning[not-supplied]: the door gateway does not supply `org`, which `per` of \"edge\" reads",
        "there, all clients share one counter",
        "attributes: { org: 'header[\"x-org\"]' }",
    ] {
        assert!(run.stdout.contains(text), "{text}: {}", run.stdout);
    }
    for door in ["http", "grpc", "resp", "library"] {
        assert_eq!(tollgate(&["validate", "-", "--strict", "--door", door], rules).code, 0);
    }
}

#[test]
fn an_empty_file_is_no_second_file_of_a_domain() {
    let folder = folder(&[("a.yaml", "rules: []"), ("b.yaml", "# empty\n"), ("c.yaml", "")]);
    let (code, report) = json(&["validate", "--json", folder.path().to_str().unwrap()], "");
    let findings = report["findings"].as_array().unwrap();
    let codes: Vec<_> = findings.iter().map(|finding| finding["code"].as_str().unwrap()).collect();
    assert_eq!((code, codes), (1, vec!["empty", "empty"]));
}

#[test]
fn colours_can_be_forced_and_turned_off() {
    let args = ["validate", "-"];
    let coloured = |env: &[(&str, &str)]| tollgate_in(env, &args, BAD).stdout.contains('\x1b');
    assert!(coloured(&[("CLICOLOR_FORCE", "1")]));
    assert!(!coloured(&[("CLICOLOR_FORCE", "0")]));
    assert!(!coloured(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
}

#[test]
fn a_directory_is_all_its_files() {
    let other = GOOD.replace("shop", "blog");
    let files = [("shop.yaml", GOOD), ("blog.yml", &other), ("notes.txt", "{"), (".x.yaml", "{")];
    let folder = folder(&files);
    let run = tollgate(&["validate", folder.path().to_str().unwrap()], "");
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (0, "✓ 2 files: 2 domains, 2 rules, 2 limits, 0 warnings\n")
    );
    let twice = [path(&folder, "shop.yaml"), path(&folder, "shop.yaml")];
    let run = tollgate(&["validate", &twice[0], &twice[1]], "");
    assert_eq!(run.code, 1);
    assert!(run.stdout.contains("another file for the domain \"shop\""), "{}", run.stdout);
}

#[test]
fn an_unreadable_file_is_an_error() {
    let empty = folder(&[]);
    for file in ["no/such.yaml", empty.path().to_str().unwrap()] {
        let run = tollgate(&["validate", file], "");
        assert_eq!((run.code, run.stdout.as_str()), (2, ""));
        assert!(run.stderr.starts_with(&format!("error: cannot read {file}: ")), "{}", run.stderr);
    }
    assert_eq!(tollgate(&["validate"], "").code, 2);
}

#[test]
fn envoy_files_are_counted_and_merged_if_asked() {
    let limit = "rate_limit: { unit: day, requests_per_unit: 5 }";
    let file = |key: &str| {
        format!("domain: d\ndescriptors:\n  - {{ key: {key}, {limit} }}\n  - {{ key: {key}s }}\n")
    };
    let folder = folder(&[("a.yaml", &file("user")), ("b.yaml", &file("org"))]);
    let one = path(&folder, "a.yaml");
    let run = tollgate(&["validate", &one], "");
    let expected = format!("✓ {one}: 1 domain, 1 rule, 1 limit, 0 warnings\n");
    assert_eq!((run.code, run.stdout), (0, expected));
    let both = folder.path().to_str().unwrap();
    let run = tollgate(&["validate", both], "");
    assert!(run.code == 1 && run.stdout.contains("--envoy-merge-domains"), "{}", run.stdout);
    let run = tollgate(&["validate", both, "--envoy-merge-domains"], "");
    assert_eq!(run.code, 0, "{}", run.stdout);
    assert!(run.stdout.contains("2 files: 1 domain, 2 rules, 2 limits"), "{}", run.stdout);
}
