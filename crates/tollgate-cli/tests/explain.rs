//! `tollgate explain`: which rules apply, with keys and arithmetic.

mod support;

use support::{folder, json, path, tollgate};

const RULES: &str = "
domain: shop
lists: { office: [198.51.100.0/24] }
plans: { default: { api: 60/h }, pro: { api: 5k/h burst 200 } }
overrides:
  - { match: { org: acme }, rule: api, limit: 50k/h, until: 2027-01-01 }
attributes: [model, org, user]
rules:
  - { name: office, when: ip in lists.office, then: allow }
  - { name: api, route: /api/**, per: [org, user], limit: plan.api }
  - { name: login, route: POST /login, per: ip, limit: [5/min, 20/h fixed], bucket: auth }
  - { name: tokens, when: model == \"big\", per: user, cost: 3, limit: 2/min, mode: shadow }
  - { name: night, route: POST /login, during: mon-fri 22:00-06:00, limit: 1/h }
";

#[test]
fn the_arithmetic_of_every_rule_is_shown() {
    let folder = folder(&[("shop.yaml", RULES)]);
    let file = path(&folder, "shop.yaml");
    let args = ["POST", "/login", "ip=203.0.113.7", "cost=2", "at=2026-01-05T12:30:00Z"];
    let run = tollgate(&[&["explain", &file][..], &args].concat(), "");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert_eq!(
        run.stdout,
        "allowed (200), decided by login of the domain shop

login: counts 203.0.113.7, in the bucket auth
  limit       from  cost           left  retry in  full in  wait
  5/min       rule     2  allows    3/5         -      24s     0
  20/h fixed  rule     2  allows  18/20         -    30min     0

Does not apply
  office  its condition does not hold
  api     its route is another
  tokens  its condition does not hold
  night   it is not in force at this time
"
    );
}

#[test]
fn json_output_has_the_same_content() {
    let folder = folder(&[("shop.yaml", RULES)]);
    let file = path(&folder, "shop.yaml");
    let limits = |args: &[&str]| {
        let (code, explanation) =
            json(&[&["explain", "--json", &file, "GET", "/api/x"], args].concat(), "");
        assert_eq!(code, 0);
        let api =
            explanation["rules"].as_array().unwrap().iter().find(|rule| rule["name"] == "api");
        api.cloned().unwrap()
    };
    let ann = limits(&["user=ann", "org=shop", NOON]);
    assert_eq!(
        (&ann["key"], &ann["limits"][0]["from"]),
        (&"shop|ann".into(), &"plan default".into())
    );
    assert_eq!(ann["limits"][0]["remaining"], 59);
    let pro = limits(&["user=ann", "org=shop", "plan=pro", NOON]);
    assert_eq!(pro["limits"][0]["limit"], "5k/h burst 200");
    let acme = limits(&["user=ann", "org=acme", "at=2026-06-01"]);
    assert_eq!(acme["limits"][0]["from"], "override");
    let later = limits(&["user=ann", "org=acme", "at=2027-06-01"]);
    assert_eq!(later["limits"][0]["from"], "plan default");
}

/// A moment outside the hours of the rule `night`: a Monday at noon.
const NOON: &str = "at=2026-01-05T12:00:00Z";

#[test]
fn a_refusal_is_exit_code_1() {
    let folder = folder(&[("shop.yaml", RULES)]);
    let file = path(&folder, "shop.yaml");
    let run = tollgate(&["explain", &file, "POST /login", "ip=203.0.113.7", "cost=9", NOON], "");
    assert_eq!((run.code, run.stderr.as_str()), (1, ""));
    assert!(
        run.stdout.starts_with("refused by login: it asks for more than the limit holds (429)")
    );
    assert!(run.stdout.contains("never fits"), "{}", run.stdout);
    let run = tollgate(&["explain", &file, "/api/a", "ip=198.51.100.1", "user=a", NOON], "");
    assert_eq!(run.code, 0);
    assert!(run.stdout.contains("api: not checked, since office decides\n"), "{}", run.stdout);
    let run = tollgate(&["explain", &file, "/api/a", "user=a", "model=big", NOON], "");
    assert_eq!(run.code, 0, "{}", run.stdout);
    assert!(run.stdout.contains("api: counts (missing)|a\n"), "{}", run.stdout);
    assert!(run.stdout.contains("tokens: counts a, mode shadow\n"), "{}", run.stdout);
}

#[test]
fn a_missing_attribute_is_named() {
    let rules = "attributes: [org]\nrules: [{ name: api, per: [ip, org], limit: 10/s }]";
    let run = tollgate(&["explain", "-", "GET", "/", "ip=192.0.2.1"], rules);
    let note = "\napi: the request lacks org; all such requests share one counter.\n";
    assert!(run.stdout.contains(note), "{}", run.stdout);
    let (_, explained) = json(&["explain", "--json", "-", "GET", "/", "ip=192.0.2.1"], rules);
    assert_eq!(explained["rules"][0]["missing"], serde_json::json!(["org"]));
    let (_, explained) = json(&["explain", "--json", "-", "ip=192.0.2.1", "org=a"], rules);
    assert_eq!(explained["rules"][0]["missing"], serde_json::Value::Null);
}

#[test]
fn attributes_are_spelled_as_in_rules() {
    let rules = "rules: [{ name: api, per: 'header[\"x-org\"]', limit: 10/s }]";
    for word in ["header[\"x-org\"]=acme", "header['x-org']=acme", "header.x-org=acme"] {
        let (_, explained) = json(&["explain", "--json", "-", "GET", "/", word], rules);
        assert_eq!(explained["rules"][0]["key"], "acme", "{word}");
    }
}

#[test]
fn invalid_requests_are_explained() {
    let folder = folder(&[("shop.yaml", RULES), ("bad.yaml", "rules: 5")]);
    let file = path(&folder, "shop.yaml");
    for (args, what) in [
        (&["login"][..], "neither a method, a path nor NAME=VALUE"),
        (&["ip=localhost"], "no address"),
        (&["cost=many"], "no whole number"),
        (&["/", "at=noon"], "at=noon is no time: write at=2026-01-31T12:00:00Z"),
        (&[], "the request is missing"),
    ] {
        let run = tollgate(&[&["explain", &file], args].concat(), "");
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}");
        assert!(run.stderr.contains(what), "{args:?}: {}", run.stderr);
    }
    let bad = path(&folder, "bad.yaml");
    let run = tollgate(&["explain", &bad, "/"], "");
    assert_eq!(run.code, 2);
    assert!(run.stderr.starts_with(&format!("error: {bad} is not valid:\n")), "{}", run.stderr);
}

const DESCRIPTORS: &str = "
domain: rl
descriptors:
  - key: foo
    rate_limit: { unit: minute, requests_per_unit: 2 }
    descriptors:
      - { key: bar, value: banned, rate_limit: { name: banned, unit: minute, requests_per_unit: 0 } }
      - { key: ip, rate_limit: { unit: hour, requests_per_unit: 3 } }
  - { key: category, rate_limit: { unit: minute, requests_per_unit: 4, replaces: [{ name: banned }] } }
";

#[test]
fn descriptors_of_envoy_files_are_explained() {
    let folder = folder(&[("rl.yaml", DESCRIPTORS)]);
    let file = path(&folder, "rl.yaml");
    let explain = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        tollgate(&[&["explain", &file][..], &words].concat(), "")
    };
    let run = explain("foo=ann bar=banned at=2026-01-05T12:30:00Z");
    assert_eq!(
        (run.code, run.stdout.as_str(), run.stderr.as_str()),
        (
            1,
            "refused by rl.foo.bar_banned (429), decided by rl.foo.bar_banned of the domain rl

rl.foo.bar_banned: counts foo|ann|bar|banned
  limit                     from  cost              left  retry in  full in  wait
  0/min fixed count_denied  file     1  never fits   0/0         -     1min     0
",
            ""
        )
    );
    // Another descriptor of the request replaces the limit.
    let run = explain("domain=rl foo=ann bar=banned + category=account");
    assert_eq!(run.code, 0);
    assert!(run.stdout.contains("its limit is replaced"), "{}", run.stdout);
    // Entries keep their order, also those that rules know by another name.
    let run = explain("foo=ann ip=10.0.0.1 cost=4");
    assert_eq!(run.code, 1, "{}", run.stdout);
    assert!(run.stdout.contains("rl.foo.ip: counts foo|ann|ip|10.0.0.1"), "{}", run.stdout);
    let run = explain("foo=ann other=x");
    assert!(run.stdout.contains("no descriptor for other=x below foo=ann"), "{}", run.stdout);
    for (words, expected) in [
        ("foo=ann +", "no entries"),
        ("foo=ann word", "KEY=VALUE"),
        ("foo=ann cost=x", "no whole number"),
        ("domain=elsewhere foo=ann + bar=x", "domain=…"),
    ] {
        let run = explain(words);
        assert!(run.code == 2 && run.stderr.contains(expected), "{words}: {}", run.stderr);
    }
}
