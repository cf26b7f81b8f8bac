//! Secrets in keys: which values are hashed, and that hashes count like the values.

use tollgate_rules::{BanData, Data, KeySecret, Request, RuleLimiter, Rules};

fn limiter(rules: &str) -> RuleLimiter {
    let secret = KeySecret::new(*b"0123456789abcdef");
    RuleLimiter::builder().key_secret(secret).build(rules.parse().unwrap())
}

/// Returns the key of a request that has the same value in every place.
fn key(per: &str) -> String {
    let per = per.replace('\'', "''");
    let limiter = limiter(&format!(
        "attributes: [api_key, user]\nrules: [{{ name: r, per: '{per}', limit: 5/h }}]"
    ));
    let mut request =
        Request::new("GET", "/a?api_key=ann&page=ann").peer("192.0.2.1".parse().unwrap());
    for header in ["authorization", "x-api-key", "apikey", "x-org"] {
        request = request.header(header, "ann");
    }
    request = request.header("cookie", "session=ann");
    request = request.attribute("user", "ann").attribute("api_key", "ann");
    limiter.decide_now(&request).key().unwrap().to_owned()
}

#[test]
fn values_of_secrets_are_hashed_and_others_are_not() {
    for per in [
        r#"header["authorization"]"#,
        r#"header["X-Api-Key"]"#,
        "header.apikey",
        r#"cookie["session"]"#,
        r#"query["api_key"]"#,
        "api_key",
        r#"header["x-api-key"] + "x""#,
        r#"has(user) ? header["authorization"] : user"#,
    ] {
        let key = key(per);
        assert!(key.starts_with("%#") && key.len() == 34 && !key.contains("ann"), "{per}: {key}");
    }
    for per in ["user", r#"header["x-org"]"#, r#"query["page"]"#] {
        assert_eq!(key(per), "ann", "{per}");
    }
    assert_eq!(key(r#"has(header["authorization"]) ? "member" : "guest""#), "member");
    assert_eq!(key("ip"), "192.0.2.1");
}

#[test]
fn a_hash_counts_like_its_value() {
    let rules = r#"
attributes: [user]
rules:
  - { name: r, per: [user, 'header["x-api-key"]'], limit: 2/h, missing_key: shared }
"#;
    let limiter = limiter(rules);
    let ask = |user: &str, value: Option<&str>| {
        let request = Request::empty().attribute("user", user);
        let request = match value {
            Some(value) => request.header("x-api-key", value),
            None => request,
        };
        limiter.decide_now(&request).allowed
    };
    for value in [Some("a"), Some("b"), Some("%-"), Some(""), None] {
        assert!(ask("ann", value) && ask("ann", value) && !ask("ann", value), "{value:?}");
        assert!(ask("bob", value), "{value:?}");
    }
}

#[test]
fn a_secret_declared_by_the_rules_is_hashed_wherever_it_is_used() {
    let rules = "
attributes:
  kind: {}
  token: { value: jwt.sub, secret: true }
  label: 'token + \"!\"'
  open: { value: token, secret: false }
rules:
  - { name: secret, when: 'kind == 1', per: token, limit: 5/h }
  - { name: derived, when: 'kind == 2', per: label, limit: 5/h }
  - { name: open, when: 'kind == 3', per: open, limit: 5/h }
";
    let limiter = limiter(rules);
    let key = |kind: i64| {
        let request = Request::empty().attribute("jwt.sub", "ann").attribute("kind", kind);
        limiter.decide_now(&request).key().unwrap().to_owned()
    };
    assert!(key(1).starts_with("%#") && key(2).starts_with("%#"));
    assert_ne!(key(1), key(2));
    assert_eq!(key(3), "ann");
    for wrong in ["{ secret: maybe }", "{ value: a, scret: true }", "{ secret: true, other: 1 }"] {
        let rules = format!("attributes: {{ a: {wrong} }}\nrules: []");
        assert!(rules.parse::<Rules>().is_err(), "{wrong}");
    }
}

#[test]
fn bans_overrides_and_another_secret() {
    let text = r#"
overrides: [{ match: { 'header["x-api-key"]': vip }, rule: api, limit: 100/h }]
rules: [{ name: api, per: 'header["x-api-key"]', limit: 5/h }]
"#;
    let limiter = limiter(text);
    let ask = |value: &str| limiter.decide_now(&Request::empty().header("x-api-key", value));
    assert_eq!(ask("vip").tightest().unwrap().verdict.remaining, 99, "overrides see the value");
    let ban = |key: &str| BanData { rule: "api".into(), key: key.into(), ..BanData::default() };
    let hash = limiter.stored_key(None, "api", "bob");
    let data = Data { bans: vec![ban("ann"), ban(&hash)], ..Data::default() };
    let rules: Rules = text.parse().unwrap();
    limiter.replace(rules.with_data(&data).unwrap());
    assert!(!ask("ann").allowed && !ask("bob").allowed && ask("eve").allowed);
    let before = ask("eve").key().unwrap().to_owned();
    limiter.set_key_secret(KeySecret::new([7; 16]));
    assert_ne!(ask("eve").key().unwrap(), before);
    assert!(!ask("ann").allowed, "a ban by value survives another secret");
}

#[test]
fn secrets_in_descriptors_of_envoy_are_hashed() {
    let file = "
domain: web
descriptors:
  - { key: authorization, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: user, rate_limit: { unit: hour, requests_per_unit: 1 } }
";
    let limiter = limiter(file);
    let ask = |name: &str, value: &str| {
        limiter.decide_now(&Request::empty().domain("web").attribute(name, value))
    };
    let first = ask("authorization", "s3cret");
    assert!(first.allowed && !ask("authorization", "s3cret").allowed);
    assert!(ask("authorization", "other").allowed);
    let key = first.key().unwrap();
    assert!(key.starts_with("authorization|%#") && !key.contains("s3cret"), "{key}");
    assert_eq!(ask("user", "ann").key(), Some("user|ann"));
}
