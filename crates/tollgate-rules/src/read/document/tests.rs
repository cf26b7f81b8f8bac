//! Tests of reading files into definitions.

use std::time::Duration;

use super::read as read_document;
use crate::Source;
use crate::compile::policy::{Ban, Mode, Queue, Shed, Then};
use crate::read::definition::{AttributeDefinition, Document, LimitDefinition, WhenDefinition};
use crate::read::diagnostic::Diagnostics;
use crate::read::yaml;

/// Reads a text into its definitions and diagnostics.
fn read(text: &str) -> (Document, Diagnostics) {
    let sources = [Source::new("test.yaml", text)].into();
    let mut diagnostics = Diagnostics::new(sources);
    match yaml::parse(text, 0) {
        Ok(root) => (read_document(&root, &mut diagnostics), diagnostics),
        Err(error) => {
            diagnostics.push(error);
            (Document::default(), diagnostics)
        }
    }
}

/// Reads a text that has no errors.
fn read_valid(text: &str) -> Document {
    let (document, diagnostics) = read(text);
    assert!(diagnostics.is_empty(), "{diagnostics}");
    document
}

#[test]
fn the_top_level_of_the_example_is_read() {
    let document = read_valid(include_str!("tests/example.yaml"));
    assert_eq!(document.domain.as_ref().unwrap().value, "shop");
    assert_eq!(document.defaults.ipv6_prefix, Some(64));
    assert_eq!(document.defaults.timezone.as_ref().unwrap().value, "UTC");
    assert_eq!(document.trusted_proxies[0].value.to_string(), "10.0.0.0/8");
    let expression = |it: &AttributeDefinition| it.value.as_ref().map(|text| text.value.clone());
    let attributes: Vec<_> =
        document.attributes.iter().map(|it| (&*it.name.value, expression(it))).collect();
    let org = Some(r#"header["x-org"]"#.to_owned());
    assert_eq!(attributes, [("org", org), ("user", Some("jwt.sub".into())), ("model", None)]);
    assert_eq!(document.lists[0].name.value, "office");
    assert_eq!(document.lists[0].entries[0].value, "203.0.113.0/24");
    let pro = &document.plans[1];
    assert_eq!((&*pro.name.value, pro.limits.len()), ("pro", 2));
    assert_eq!(pro.limits[0].1[0].to_string(), "5k/h burst 200");
    let acme = &document.overrides[0];
    assert_eq!((&*acme.matches[0].0.value, &*acme.matches[0].1.value), ("org", "acme"));
    assert_eq!(acme.rule.as_ref().unwrap().value, "api");
    assert_eq!(acme.limits[0].to_string(), "50k/h");
    assert_eq!(acme.until.as_ref().unwrap().value, 1_798_761_600_000_000_000);
}

#[test]
fn the_rules_of_the_example_are_read() {
    let document = read_valid(include_str!("tests/example.yaml"));
    let names: Vec<_> = document.rules.iter().map(|rule| &*rule.name.value).collect();
    assert_eq!(
        names,
        [
            "office", "edge", "api", "login", "endpoint", "report", "tokens", "inflight",
            "upstream", "month"
        ]
    );
    let rule = |name: &str| document.rules.iter().find(|rule| rule.name.value == name).unwrap();
    let then = |name: &str| rule(name).then.as_ref().unwrap().value.clone();
    let limits = |name: &str| -> Vec<String> {
        let limits = rule(name).limits.iter();
        limits.map(|limit| format!("{:?}", ShownLimit(&limit.value))).collect()
    };
    let office = &rule("office").when.as_ref().unwrap().value;
    assert!(matches!(office, WhenDefinition::Expression(text) if text == "ip in lists.office"));
    assert_eq!(then("office"), Then::Allow);
    assert_eq!(then("edge"), Then::Delay { up_to: Duration::from_secs(1), status: 429 });
    assert_eq!(limits("edge"), ["10/s burst 20"]);
    assert_eq!(
        rule("api").per.iter().map(|part| &*part.value).collect::<Vec<_>>(),
        ["org", "user"]
    );
    assert_eq!(limits("api"), ["plan.api ()"]);
    assert_eq!(rule("api").mode, Mode::Shadow);
    assert_eq!(rule("login").routes[0].value.to_string(), "POST /login");
    assert_eq!(limits("login"), ["5/min", "20/h sliding"]);
    assert_eq!(rule("login").count.as_ref().unwrap().value, "response.status in [401, 403]");
    let ladder = [60, 600, 3_600].map(Duration::from_secs).to_vec();
    assert_eq!(then("login"), Then::Ban(Ban { ladder, after: 1, within: Duration::ZERO }));
    let up_to = Duration::from_secs(2);
    assert_eq!(
        then("endpoint"),
        Then::Queue(Queue { capacity: 100, up_to, lifo: false, status: 429 })
    );
    assert_eq!(then("report"), Then::Defer);
    let cost = rule("tokens").cost.as_ref().unwrap();
    assert_eq!(cost.reserve.value, "body.max_tokens");
    assert_eq!(cost.settle.as_ref().unwrap().value, r#"response.header["x-tokens"]"#);
    assert_eq!(cost.expire, Some(Duration::from_secs(600)));
    assert_eq!(limits("tokens"), ["200k tokens/min", "5M tokens/day"]);
    assert_eq!(limits("inflight"), ["100 concurrent"]);
    assert_eq!(limits("upstream"), ["adaptive 20..500 concurrent"]);
    assert_eq!(limits("month"), ["plan.month (calendar)"]);
    assert_eq!(then("month"), Then::Deny { status: 402 });
}

/// Renders a limit of a rule in one line.
struct ShownLimit<'w>(&'w LimitDefinition);

impl std::fmt::Debug for ShownLimit<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            LimitDefinition::Limit(limit) => write!(f, "{limit}"),
            LimitDefinition::Plan { limit, options } => write!(f, "plan.{limit} ({options})"),
            LimitDefinition::Distinct { count, attribute, window } => {
                write!(f, "{count} distinct {attribute} in {window:?}")
            }
        }
    }
}

/// Returns the limits of a rule whose `limit` is `text`.
fn limits(text: &str) -> Vec<String> {
    let document = read_valid(&format!("rules:\n  - name: a\n    limit: {text}\n"));
    let limits = document.rules[0].limits.iter();
    limits.map(|limit| format!("{:?}", ShownLimit(&limit.value))).collect()
}

#[test]
fn the_long_form_of_a_limit_equals_the_short_one() {
    for (long, short) in [
        ("{ requests: 10, per: s }", "10/s"),
        ("{ requests: 10k, per: 15min, burst: 20k, unit: tokens }", "10k tokens/15min burst 20k"),
        (
            "{ algorithm: sliding_window, requests: 500, per: hour, slots: 60 }",
            "500/h sliding slots 60",
        ),
        (
            "{ algorithm: sliding-log, requests: 5, per: min, min_gap: 100ms }",
            "5/min log min_gap 100ms",
        ),
        ("{ algorithm: fixed_window, requests: 5, per: min }", "5/min fixed"),
        ("{ algorithm: fixed_window, requests: 5, per: min, align: epoch }", "5/min fixed"),
        (
            "{ requests: 5, per: min, align: first_hit, count_denied: true }",
            "5/min fixed first_hit count_denied",
        ),
        (
            "{ algorithm: fixed_window, align: calendar, requests: 1k, per: month, zone: Europe/Berlin, anchor: 15 }",
            "1k/month calendar zone Europe/Berlin anchor 15",
        ),
        (
            "{ algorithm: leaky_bucket, requests: 20, per: s, burst: 50, free: 5 }",
            "20/s leaky free 5 burst 50",
        ),
        ("{ requests: 60, per: min, refill: interval, initial: 5 }", "60/min initial 5 interval"),
        ("{ requests: 60, per: min, refill: greedy, pay_later: false }", "60/min"),
        ("{ requests: 10, per: s, warmup: 3s }", "10/s warmup 3s"),
        ("{ concurrent: 100, lease: 10s }", "100 concurrent lease 10s"),
        ("{ algorithm: adaptive, min: 20, max: 500 }", "adaptive 20..500 concurrent"),
        ("{ min: 20, max: 500, controller: vegas }", "adaptive 20..500 concurrent vegas"),
        ("{ min: 20, max: 500, controller: flow }", "adaptive 20..500 concurrent"),
        ("{ algorithm: unlimited }", "unlimited"),
    ] {
        let expected: tollgate::Limit = short.parse().unwrap();
        assert_eq!(limits(long), [expected.to_string()], "{long}");
    }
}

#[test]
fn plan_and_distinct_limits_are_read() {
    assert_eq!(
        limits("plan.month calendar zone Europe/Berlin"),
        ["plan.month (calendar zone Europe/Berlin)"]
    );
    assert_eq!(limits("3 distinct user/h"), ["3 distinct user in 3600s"]);
    assert_eq!(limits("5 distinct header[\"x/y\"]/10min"), ["5 distinct header[\"x/y\"] in 600s"]);
    assert_eq!(limits("[10/s, 'plan.api']"), ["10/s", "plan.api ()"]);
}

/// Returns the action of a rule whose `then` is `text`.
fn then(text: &str) -> Then {
    let document = read_valid(&format!("rules:\n  - name: a\n    limit: 1/s\n    then: {text}\n"));
    document.rules[0].then.as_ref().unwrap().value.clone()
}

#[test]
fn actions_are_read_in_both_forms() {
    let minutes = |count: u64| Duration::from_secs(60 * count);
    for (short, long, expected) in [
        ("deny", "{ deny: }", Then::Deny { status: 429 }),
        ("deny 402", "{ deny: 402 }", Then::Deny { status: 402 }),
        (
            "delay up to 500ms",
            "{ delay: 500ms }",
            Then::Delay { up_to: Duration::from_millis(500), status: 429 },
        ),
        (
            "delay up to 1min or deny 503",
            "{ delay: 1min, deny: 503 }",
            Then::Delay { up_to: minutes(1), status: 503 },
        ),
        (
            "queue 5 up to 1min or deny 503",
            "{ queue: 5, up_to: 1min, deny: 503 }",
            Then::Queue(Queue { capacity: 5, up_to: minutes(1), lifo: false, status: 503 }),
        ),
        (
            "queue 1k up to 1min lifo",
            "{ queue: 1k, up_to: 1min, order: lifo }",
            Then::Queue(Queue { capacity: 1_000, up_to: minutes(1), lifo: true, status: 429 }),
        ),
        ("defer", "{ defer: }", Then::Defer),
        ("shed", "{ shed: }", Then::Shed(Shed { critical: 20, normal: 30 })),
        (
            "ban 10min",
            "{ ban: 10min }",
            Then::Ban(Ban { ladder: vec![minutes(10)], after: 1, within: Duration::ZERO }),
        ),
        (
            "ban [1min, 10min] after 20 denials in 5min",
            "{ ban: [1min, 10min], after: 20, within: 5min }",
            Then::Ban(Ban { ladder: vec![minutes(1), minutes(10)], after: 20, within: minutes(5) }),
        ),
        (
            "ban [1min] after 1k in 1min",
            "{ ban: [1min], after: 1k denials in 1min }",
            Then::Ban(Ban { ladder: vec![minutes(1)], after: 1_000, within: minutes(1) }),
        ),
    ] {
        assert_eq!(then(short), expected, "{short}");
        assert_eq!(then(long), expected, "{long}");
    }
}

#[test]
fn merge_keys_add_missing_fields() {
    let document = read_valid(
        "attributes: [user]\nrules:\n  - &base { name: a, per: ip, limit: 1/s }\n  - { <<: *base, name: b, limit: 2/s }\n  - <<: [*base, { per: user, mode: shadow }]\n    name: c\n",
    );
    let read: Vec<_> = document
        .rules
        .iter()
        .map(|rule| {
            (
                &*rule.name.value,
                &*rule.per[0].value,
                format!("{:?}", ShownLimit(&rule.limits[0])),
                rule.mode,
            )
        })
        .collect();
    assert_eq!(
        read,
        [
            ("a", "ip", "1/s".into(), Mode::Enforce),
            ("b", "ip", "2/s".into(), Mode::Enforce),
            ("c", "ip", "1/s".into(), Mode::Shadow),
        ]
    );
}

#[test]
fn dates_are_in_the_time_zone_of_the_file() {
    let until = |zone: &str, date: &str| {
        let document = read_valid(&format!(
            "defaults: {{ timezone: {zone} }}\nattributes: [org]\nrules: []\noverrides: [{{ match: {{ org: a }}, plan: b, until: \"{date}\" }}]\n"
        ));
        document.overrides[0].until.as_ref().unwrap().value / 1_000_000_000
    };
    assert_eq!(until("UTC", "2027-01-01"), 1_798_761_600);
    assert_eq!(until("europe/berlin", "2027-01-01"), 1_798_761_600 - 3_600);
    assert_eq!(until("Europe/Berlin", "2027-01-01T01:00:00"), 1_798_761_600);
    assert_eq!(until("Europe/Berlin", "2027-01-01T01:00:00+02:00"), 1_798_761_600 - 3_600);
}

#[test]
fn a_test_case_is_a_step_or_a_named_list_of_steps() {
    let document = read_valid(
        "rules: []\ntests:\n  - { request: GET / ip=192.0.2.7, expect: allow }\n  - name: login\n    steps:\n      - { request: POST /login, times: 5, expect: { allow: 5, remaining: 0 } }\n      - { at: 10s, request: POST /login, cost: 2, expect: { deny: true, rule: login, code: 429, retry_after: 2s } }\n",
    );
    assert_eq!(document.cases[0].steps[0].request.value, "GET / ip=192.0.2.7");
    let login = &document.cases[1];
    assert_eq!((login.name.as_deref(), login.steps.len()), (Some("login"), 2));
    let step = &login.steps[1];
    assert_eq!((step.at, step.cost, step.times), (Some(Duration::from_secs(10)), Some(2), 1));
    let expected: Vec<_> =
        step.expect.iter().map(|(name, value)| (&*name.value, &*value.value)).collect();
    assert_eq!(
        expected,
        [("deny", "true"), ("rule", "login"), ("code", "429"), ("retry_after", "2s")]
    );
}

#[test]
fn conditions_are_texts_or_mappings() {
    let document =
        read_valid("rules: [{ name: a, limit: 1/s, when: { plan: free, method: [GET, HEAD] } }]\n");
    let WhenDefinition::Fields(fields) = &document.rules[0].when.as_ref().unwrap().value else {
        panic!()
    };
    let read: Vec<_> = fields
        .iter()
        .map(|(name, any)| (&*name.value, any.iter().map(|one| &*one.value).collect::<Vec<_>>()))
        .collect();
    assert_eq!(read, [("plan", vec!["free"]), ("method", vec!["GET", "HEAD"])]);
}

#[test]
fn one_error_is_one_diagnostic() {
    for text in [
        "rules: [{ nmae: a, limit: 1/s }]",
        "rules: [{ name: a, limits: 1/s }]",
        "rules: [{ name: a, limit: 1/m }]",
        "rules: [{ name: a, limit: { requests: 1, per: m } }]",
        "rules: [{ name: a, limit: 1/s, then: dney }]",
        "rules: [{ name: a b, limit: 1/s }]",
    ] {
        let (_, diagnostics) = read(text);
        assert_eq!(diagnostics.len(), 1, "{diagnostics}");
    }
}

#[test]
fn a_diagnostic_points_into_quotes_but_not_into_escapes() {
    let column = |limit: &str| {
        let (_, diagnostics) = read(&format!("rules: [{{ name: a, limit: {limit} }}]"));
        let finding = diagnostics.findings().next().unwrap();
        (finding.column, finding.from, finding.to, finding.replacement.unwrap().to_owned())
    };
    let min = "min".to_owned();
    assert_eq!(column("10/m"), (30, 29, 30, min.clone()));
    assert_eq!(column("\"10/m\""), (31, 30, 31, min.clone()));
    assert_eq!(column("'10/m'"), (31, 30, 31, min));
    assert_eq!(column("\"10\\x2Fm\""), (27, 26, 35, "10/min".into()));
}

#[test]
fn lines_may_end_in_carriage_returns() {
    let (_, diagnostics) = read("\u{feff}rules:\r\n  - name: a\r\n    limit: 10/m\r\n");
    let finding = diagnostics.findings().next().unwrap();
    assert_eq!((finding.line, finding.column, finding.snippet), (3, 15, "    limit: 10/m"));
    assert!(!diagnostics.to_string().contains('\r'), "{diagnostics}");
}
