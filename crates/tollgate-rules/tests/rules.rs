//! Decisions by rules, from the text of the rules to the result, under virtual time.

mod support;

use std::time::Duration;

use support::rules::Fixture;
use tollgate_rules::{Reason, Request, Rules, Source, Then};

#[test]
fn every_matching_rule_applies_and_limits_are_charged_all_or_none() {
    let limiter = Fixture::new(
        "
attributes: [org, team, user]
rules:
  - { name: org,    per: org, limit: 3/h }
  - { name: team,   per: [org, team], limit: 2/h }
  - { name: member, per: [org, team, user], limit: 1/h }
",
    );
    let ask = |words: &str| limiter.ask(words);
    assert!(ask("org=acme team=red user=ann").allowed);
    let denied = ask("org=acme team=red user=ann");
    assert_eq!((denied.allowed, denied.rule()), (false, Some("member")));
    // The refused request was charged to neither the team nor the organisation.
    assert!(ask("org=acme team=red user=bob").allowed);
    assert_eq!(ask("org=acme team=red user=cyd").rule(), Some("team"));
    assert!(ask("org=acme team=blue user=dan").allowed);
    assert_eq!(ask("org=acme team=blue user=eve").rule(), Some("org"));
    assert!(ask("org=other team=red user=ann").allowed);
}

#[test]
fn allow_goes_before_deny_and_deny_before_limits() {
    let limiter = Fixture::new(
        r#"
attributes: [user]
rules:
  - { name: limit, per: user, limit: 1/h }
  - { name: block, when: { user: "evil*" }, then: deny 403 }
  - { name: office, when: { user: evil-but-ours }, then: allow }
"#,
    );
    let denied = limiter.ask("user=evil-one");
    assert_eq!(
        (denied.code, denied.reason, denied.rule()),
        (403, Reason::DeniedByRule, Some("block"))
    );
    let allowed = limiter.ask("user=evil-but-ours");
    assert_eq!((allowed.allowed, allowed.reason), (true, Reason::AllowedByRule));
    assert!(limiter.ask("user=ann").allowed);
    assert!(!limiter.ask("user=ann").allowed);
    // The request that a rule allowed outright was not charged.
    assert_eq!(limiter.limiter.store().len(), 1);
}

#[test]
fn an_unmatched_request_passes_or_is_refused_with_503() {
    let rule = "rules: [{ name: login, route: POST /login, limit: 1/h }]";
    let open = Fixture::new(rule);
    let decision = open.ask("GET /");
    assert_eq!((decision.allowed, decision.code, decision.reason), (true, 200, Reason::Unmatched));
    let closed = Fixture::new(&format!("defaults: {{ unmatched: deny }}\n{rule}"));
    let decision = closed.ask("GET /");
    assert_eq!((decision.allowed, decision.code, decision.reason), (false, 503, Reason::Unmatched));
    assert!(closed.ask("POST /login").allowed);
}

#[test]
fn requests_without_a_key_share_one_counter_by_default() {
    let rules = |missing: &str| {
        Fixture::new(&format!(
            "attributes: [user]\nrules: [{{ name: api, per: user, limit: 1/h, missing_key: {missing} }}]"
        ))
    };
    let shared = rules("shared");
    assert!(shared.ask("GET /").allowed);
    assert!(!shared.ask("GET /").allowed);
    assert!(shared.ask("GET / user=ann").allowed);
    let skip = rules("skip");
    assert!((0..5).all(|_| skip.ask("GET /").allowed));
    let deny = rules("deny");
    let denied = deny.ask("GET /");
    assert_eq!((denied.allowed, denied.reason), (false, Reason::KeyMissing));
    assert!(deny.ask("GET / user=ann").allowed);
}

#[test]
fn a_header_with_several_values_is_neither_missing_nor_a_valid_key() {
    let rules = r#"rules: [{ name: r, per: 'header["x-key"]', limit: 1/h, missing_key: skip }]"#;
    let limiter = tollgate_rules::RuleLimiter::new(rules.parse().unwrap());
    let ask = |one, other| {
        let request = Request::new("GET", "/").header("x-key", one).header("X-Key", other);
        limiter.decide_now(&request).allowed
    };
    assert!(ask("a", "b"));
    assert!(!ask("a", "c"), "another second value gets no fresh counter");
    assert!(ask("a", "a"), "a repeated value is still that value");
    assert!(!limiter.decide_now(&Request::new("GET", "/").header("x-key", "a")).allowed);
    assert!((0..3).all(|_| limiter.decide_now(&Request::new("GET", "/")).allowed), "skipped");
}

#[test]
fn a_plan_chooses_the_limits_of_its_clients() {
    let limiter = Fixture::new(
        "
plans:
  default: { api: 1/h }
  free: { api: 2/h }
  pro: { api: [3/h, 100/day], month: 1k/month }
attributes: [org]
rules:
  - { name: api, per: org, limit: plan.api }
  - { name: month, per: org, limit: plan.month calendar }
",
    );
    let passes = |words: &str| (0..10).filter(|_| limiter.ask(words).allowed).count();
    assert_eq!(passes("org=a plan=free"), 2);
    assert_eq!(passes("org=b plan=pro"), 3);
    assert_eq!(passes("org=c"), 1); // clients without a plan have the default
    assert_eq!(passes("org=d plan=gold"), 1);
    // A plan without a limit for a period does not limit that period.
    assert_eq!(limiter.ask("org=e plan=free").limits().count(), 1);
    assert_eq!(limiter.ask("org=f plan=pro").limits().count(), 3);
}

#[test]
fn exact_overrides_precede_wildcards_and_plans_until_they_end() {
    let limiter = Fixture::new(
        r#"
plans:
  free: { api: 1/h }
  pro: { api: 4/h }
overrides:
  - { match: { org: "acme-*" }, rule: api, limit: 2/h }
  - { match: { org: acme-eu }, rule: api, limit: 3/h, until: 2026-01-06 }
  - { match: { org: partner }, plan: pro }
attributes: [org]
rules:
  - { name: api, per: org, limit: plan.api }
"#,
    );
    let passes = |words: &str| (0..10).filter(|_| limiter.ask(words).allowed).count();
    assert_eq!(passes("org=acme-us plan=free"), 2);
    assert_eq!(passes("org=acme-eu plan=free"), 3);
    assert_eq!(passes("org=partner plan=free"), 4);
    assert_eq!(passes("org=other plan=free"), 1);
    limiter.clock.advance(Duration::from_secs(86_400)); // the exact override ends, the wildcard remains
    assert_eq!(passes("org=acme-eu plan=free"), 2);
}

#[test]
fn shadow_rules_report_a_refusal_and_allow_the_request() {
    let limiter = Fixture::new("rules: [{ name: api, limit: 2/h, mode: shadow }]");
    let denied = (0..5).filter(|_| {
        let decision = limiter.ask("GET /");
        assert!(decision.allowed);
        decision.shadow_denied()
    });
    assert_eq!(denied.count(), 3);
}

#[test]
fn a_partly_enforced_rule_always_enforces_the_same_keys() {
    let limiter = Fixture::new(
        "attributes: [user]\nrules: [{ name: api, per: user, limit: 1/h, mode: enforce 25% }]",
    );
    let is_enforced = |user: usize| {
        let words = format!("user=u{user}");
        (0..2).filter(|_| limiter.ask(&words).allowed).count() == 1
    };
    let first: Vec<bool> = (0..400).map(is_enforced).collect();
    let enforced = first.iter().filter(|enforced| **enforced).count();
    assert!((70..130).contains(&enforced), "{enforced} of 400");
    limiter.clock.advance(Duration::from_secs(7_200));
    assert_eq!(first, (0..400).map(is_enforced).collect::<Vec<_>>());
}

#[test]
fn a_distinct_limit_counts_values_not_requests() {
    let limiter = Fixture::new(
        "attributes: [account, device]\nrules: [{ name: sharing, per: account, limit: 2 distinct device/h }]",
    );
    let ask = |words: &str| limiter.ask(words).allowed;
    for _ in 0..5 {
        assert!(ask("account=a device=phone"));
        assert!(ask("account=a device=laptop"));
    }
    assert!(!ask("account=a device=tablet"));
    assert!(ask("account=a device=phone"));
    assert!(ask("account=b device=tablet"));
    limiter.clock.advance(Duration::from_secs(3_600));
    assert!(ask("account=a device=tablet"));
}

#[test]
fn edited_rules_keep_their_counters() {
    let limiter = Fixture::new(
        "attributes: [user]\nrules: [{ name: api, per: user, limit: [10/h, 50/day fixed] }]",
    );
    for _ in 0..8 {
        assert!(limiter.ask("user=ann").allowed);
    }
    // The limits are reordered, and the hourly one is raised.
    limiter.replace(
        "attributes: [user]\nrules: [{ name: api, per: user, limit: [50/day fixed, 12/h] }]",
    );
    let decision = limiter.ask("user=ann");
    let remaining: Vec<u64> = decision.limits().map(|limit| limit.verdict.remaining).collect();
    assert_eq!(remaining, [41, 3]);
    // The original rules have the same counters again.
    limiter.replace(
        "attributes: [user]\nrules: [{ name: api, per: user, limit: [10/h, 50/day fixed] }]",
    );
    assert_eq!(limiter.ask("user=ann").tightest().unwrap().verdict.remaining, 0);
    assert!(!limiter.ask("user=ann").allowed);
    assert!(limiter.ask("user=bob").allowed);
}

#[test]
fn a_rule_moved_in_its_file_keeps_its_counters() {
    let limiter = Fixture::new("rules: [{ name: a, limit: 1/h }, { name: b, limit: 5/h }]");
    assert!(limiter.ask("GET /").allowed);
    limiter.replace("rules: [{ name: b, limit: 5/h }, { name: a, limit: 1/h }]");
    assert_eq!(limiter.ask("GET /").rule(), Some("a"));
}

#[test]
fn a_rule_may_delay_requests_over_its_limit() {
    let limiter = Fixture::new(
        "rules: [{ name: edge, per: ip, limit: 10/s burst 1, then: delay up to 200ms }]",
    );
    let ask = || limiter.ask("ip=203.0.113.7");
    assert_eq!(ask().wait, Duration::ZERO);
    assert_eq!(ask().wait, Duration::from_millis(100));
    assert_eq!(ask().wait, Duration::from_millis(200));
    let denied = ask();
    assert_eq!(
        (denied.allowed, denied.then()),
        (false, Some(&Then::Delay { up_to: Duration::from_millis(200), status: 429 }))
    );
}

#[test]
fn a_limit_without_delay_refuses_although_another_may_delay() {
    let limiter = Fixture::new(
        "
rules:
  - { name: slow, per: ip, limit: 10/s burst 1, then: delay up to 10s }
  - { name: hard, per: ip, limit: 2/h }
",
    );
    assert!(limiter.ask("ip=203.0.113.7").allowed);
    assert_eq!(limiter.ask("ip=203.0.113.7").wait, Duration::from_millis(100));
    assert_eq!(limiter.ask("ip=203.0.113.7").rule(), Some("hard"));
}

#[test]
fn rules_that_share_a_bucket_share_its_counters() {
    let limiter = Fixture::new(
        "
attributes: [user]
rules:
  - { name: search, route: GET /search, per: user, limit: 3/15min fixed, bucket: reads }
  - { name: lookup, route: GET /lookup, per: user, limit: 3/15min fixed, bucket: reads }
",
    );
    assert!(limiter.ask("GET /search user=ann").allowed);
    assert!(limiter.ask("GET /lookup user=ann").allowed);
    assert!(limiter.ask("GET /search user=ann").allowed);
    assert!(!limiter.ask("GET /lookup user=ann").allowed);
}

#[test]
fn domains_do_not_share_counters() {
    let limiter = Fixture::of([
        (
            "auth.yaml",
            "domain: auth\nattributes: [user]\nrules: [{ name: login, per: user, limit: 1/min }]",
        ),
        (
            "mail.yaml",
            "domain: mail\nattributes: [user]\nrules: [{ name: login, per: user, limit: 2/day }]",
        ),
    ]);
    assert!(limiter.ask("domain=auth user=ann").allowed);
    assert!(!limiter.ask("domain=auth user=ann").allowed);
    assert!(limiter.ask("domain=mail user=ann").allowed);
    assert!(limiter.ask("domain=mail user=ann").allowed);
    assert!(!limiter.ask("domain=mail user=ann").allowed);
    assert_eq!(limiter.ask("domain=none user=ann").reason, Reason::Unmatched);
}

#[test]
fn brackets_without_quotes_are_an_error_that_suggests_the_quotes() {
    let mut text = r#"
rules:
  - { name: tokens, per: header["x-org"], cost: { reserve: 5, settle: response.header["x-tokens"] }, limit: 10/h }
  - { name: edge, per: ip, limit: 100/s }
"#
    .to_owned();
    for quoted in [r#"'header["x-org"]'"#, r#"'response.header["x-tokens"]'"#] {
        let errors = Rules::read([Source::new("rules.yaml", &*text)]).unwrap_err();
        let finding = errors.findings().next().unwrap();
        assert_eq!((finding.code, finding.line), ("unquoted", 3));
        assert_eq!(finding.replacement, Some(quoted));
        text.replace_range(finding.from..finding.to, quoted);
    }
    let limiter = Fixture::new(&text);
    assert!(limiter.limiter.rules().warnings().is_empty());
    assert_eq!(limiter.ask("header.x-org=acme ip=192.0.2.1").rule(), Some("tokens"));
}

/// A store of which every call fails.
struct FailingStore;

impl tollgate::Store for FailingStore {
    async fn run(
        &self,
        _: tollgate::StoreCall<'_>,
    ) -> Result<tollgate::Verdicts, tollgate::StoreError> {
        Err(tollgate::StoreError::new("connection lost"))
    }
}

#[test]
fn on_error_decides_when_the_store_fails() {
    let passes = |on_error: &str| {
        let text = format!("rules: [{{ name: api, limit: 2/h, on_error: {on_error} }}]");
        let limiter =
            tollgate_rules::RuleLimiter::builder().store(FailingStore).build(text.parse().unwrap());
        let ask = || support::block_on(limiter.decide(&Request::new("GET", "/")));
        let decisions: Vec<_> = (0..4).map(|_| ask()).collect();
        (
            decisions.iter().filter(|decision| decision.allowed).count(),
            decisions[3].reason,
            decisions[3].code,
        )
    };
    assert_eq!(passes("allow"), (4, Reason::StoreFailed, 200));
    assert_eq!(passes("deny"), (0, Reason::StoreFailed, 503));
    assert_eq!(passes("local"), (2, Reason::OverLimit, 429));
}

#[test]
fn clients_can_neither_split_nor_merge_counters() {
    let limiter = Fixture::new(
        "
trusted_proxies: [10.0.0.0/8]
attributes: [org, user]
rules:
  - { name: login, route: POST /login, per: ip, limit: 1/h }
  - { name: pair, route: POST /pair, per: [org, user], limit: 1/h }
",
    );
    assert!(limiter.ask("POST /login ip=203.0.113.7").allowed);
    for spelling in [
        "POST //login ip=203.0.113.7",
        "POST /./login ip=203.0.113.7",
        "POST /x/../login ip=203.0.113.7",
        "POST /%6Cogin ip=203.0.113.7",
        "POST /login/?a=b ip=203.0.113.7",
        "POST /login ip=::ffff:203.0.113.7",
        "POST /login ip=203.0.113.7 header.x-forwarded-for=1.2.3.4",
        "POST /login ip=10.0.0.1 header.x-forwarded-for=9.9.9.9,203.0.113.7",
        "POST /login ip=10.0.0.1 header.X-Forwarded-For=9.9.9.9 header.x-forwarded-for=203.0.113.7",
    ] {
        assert!(!limiter.ask(spelling).allowed, "{spelling}");
    }
    assert!(limiter.ask("POST /login ip=2001:db8:0:1::1").allowed);
    assert!(!limiter.ask("POST /login ip=2001:db8:0:1:ffff::2").allowed); // the same /64
    assert!(limiter.ask("POST /login ip=2001:db8:0:2::1").allowed);
    for key in ["org=a user=b|c", "org=a|b user=c", "org=a user=b%7Cc", "org= user=a|b|c", "user=a"]
    {
        assert!(limiter.ask(&format!("POST /pair {key}")).allowed, "{key}");
    }
}
