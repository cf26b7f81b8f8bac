//! Costs and counts that are known only after the response.

mod support;

use std::time::Duration;

use support::rules::Fixture;
use tollgate_rules::{Decision, Outcome, Reason, Request, SettledAs};

const MINUTE: Duration = Duration::from_secs(60);

fn login() -> Request<'static> {
    Request::new("POST", "/login").attribute("ip", "203.0.113.7")
}

fn with_status(status: i64) -> Request<'static> {
    login().attribute("response.status", status)
}

fn tokens(max: i64) -> Request<'static> {
    Request::empty().attribute("org", "acme").attribute("body.max_tokens", max)
}

fn used(tokens: i64) -> Request<'static> {
    self::tokens(1).attribute("response.tokens", tokens)
}

/// Returns the remaining amount of the first limit.
fn left(fixture: &Fixture, request: &Request<'_>) -> u64 {
    support::explain(&fixture.limiter, request).rules[0].limits[0].remaining + 1
}

fn decide(fixture: &Fixture, request: &Request<'_>) -> Decision {
    let decision = fixture.limiter.decide_now(request);
    assert!(decision.allowed, "{decision}");
    decision
}

const TOKENS: &str = "
attributes: [org, response.tokens]
rules:
  - name: tokens
    per: org
    cost: { reserve: body.max_tokens, settle: response.tokens }
    limit: 1000 tokens/h
";

#[test]
fn outcomes_are_counted_once_they_are_known() {
    let fixture = Fixture::new(
        "rules: [{ name: login, per: ip, limit: 2/h, count: 'response.status in [401, 403]' }]",
    );
    for status in [401, 200, 200, 403] {
        let decision = decide(&fixture, &login());
        support::settle(&decision, &with_status(status));
    }
    let denied = fixture.limiter.decide_now(&login());
    assert!(!denied.allowed);
    let wait = denied.retry_after.unwrap();
    fixture.clock.advance(wait - Duration::from_nanos(1));
    assert!(!fixture.limiter.decide_now(&login()).allowed);
    fixture.clock.advance(Duration::from_nanos(1));
    assert!(fixture.limiter.decide_now(&login()).allowed);
}

#[test]
fn requests_in_flight_count_until_their_outcome_is_known() {
    for mode in ["enforce", "shadow"] {
        let fixture = Fixture::new(&format!(
            "rules: [{{ name: login, limit: 5/h fixed, count: response.status == 401, mode: {mode} }}]"
        ));
        let all: Vec<Decision> = (0..100).map(|_| fixture.limiter.decide_now(&login())).collect();
        let passed = |decision: &&Decision| decision.allowed && !decision.shadow_denied();
        let passed: Vec<&Decision> = all.iter().filter(passed).collect();
        assert_eq!(passed.len(), 5, "{mode}");
        // Two attempts were right, so two more may follow.
        for (decision, status) in passed.iter().zip([200, 401, 401, 200, 401]) {
            support::settle(decision, &with_status(status));
        }
        let more = (0..10).map(|_| fixture.limiter.decide_now(&login()));
        let more = more.filter(|decision| decision.allowed && !decision.shadow_denied());
        assert_eq!(more.count(), 2, "{mode}");
    }
}

#[test]
fn an_outcome_sent_with_the_request_determines_its_charge() {
    let fixture =
        Fixture::new("rules: [{ name: login, limit: 2/h fixed, count: response.status == 401 }]");
    for _ in 0..10 {
        assert!(fixture.limiter.decide_now(&with_status(200)).allowed);
        assert!(fixture.limiter.decide_now(&login().unreported()).allowed, "only asked");
    }
    decide(&fixture, &with_status(401));
    decide(&fixture, &with_status(401));
    assert!(!fixture.limiter.decide_now(&login().unreported()).allowed);
}

#[test]
fn a_request_that_never_counts_is_not_charged() {
    let fixture = Fixture::new(
        "rules: [{ name: login, limit: 1/h, count: 'method == \"POST\" && response.status == 401' }]",
    );
    let get = Request::new("GET", "/login");
    let all: Vec<_> = (0..10).map(|_| decide(&fixture, &get)).collect();
    assert_eq!(all.len(), 10, "a GET can never count");
    decide(&fixture, &login());
    assert!(!fixture.limiter.decide_now(&login()).allowed);
}

#[test]
fn a_cost_known_later_is_settled() {
    let fixture = Fixture::new(TOKENS);
    let all = &fixture.settlements;
    let decision = decide(&fixture, &tokens(800));
    assert_eq!(decision.tightest().unwrap().verdict.remaining, 200);
    support::settle(&decision, &used(100));
    assert_eq!(left(&fixture, &tokens(1)), 900);
    support::settle(&decision.clone(), &used(0));
    assert_eq!(left(&fixture, &tokens(1)), 900, "a decision is settled once");
    let decision = decide(&fixture, &tokens(100));
    support::settle(&decision, &used(1_000));
    assert!(!fixture.limiter.decide_now(&tokens(1)).allowed, "the overrun is owed");
    assert_eq!(*all.lock().unwrap(), [SettledAs::Refunded, SettledAs::Overrun]);
    let never = fixture.limiter.decide_now(&tokens(1_001));
    assert_eq!((never.reason, never.retry_after), (Reason::NeverFits, None));
}

#[test]
fn without_a_number_the_charge_stays() {
    let fixture = Fixture::new(TOKENS);
    let all = &fixture.settlements;
    for outcome in [tokens(1), tokens(1).attribute("response.tokens", "many"), used(-5)] {
        let decision = decide(&fixture, &tokens(100));
        support::settle(&decision, &outcome);
    }
    assert_eq!(left(&fixture, &tokens(1)), 700);
    assert_eq!(*all.lock().unwrap(), [SettledAs::Kept; 3]);
}

#[test]
fn after_expiry_nothing_is_refunded_and_overruns_are_still_charged() {
    let fixture = Fixture::new(&TOKENS.replace("1000 tokens/h", "1000 tokens/year"));
    let all = &fixture.settlements;
    let holds = [decide(&fixture, &tokens(100)), decide(&fixture, &tokens(100))];
    fixture.clock.advance(MINUTE * 10);
    support::settle(&holds[0], &used(1));
    support::settle(&holds[1], &used(150));
    assert_eq!(left(&fixture, &tokens(1)), 750);
    assert_eq!(*all.lock().unwrap(), [SettledAs::Expired, SettledAs::Overrun]);
}

#[test]
fn a_window_gives_back_only_what_it_still_counts() {
    for kind in ["fixed", "sliding"] {
        let text = TOKENS.replace("1000 tokens/h", &format!("100 tokens/min {kind}"));
        let fixture = Fixture::new(&text);
        let hold = decide(&fixture, &tokens(90));
        fixture.clock.advance(MINUTE * 2);
        decide(&fixture, &tokens(100));
        support::settle(&hold, &used(1));
        assert!(!fixture.limiter.decide_now(&tokens(1)).allowed, "{kind}: that minute is over");
    }
}

#[test]
fn each_rule_and_limit_is_settled_by_its_own_cost() {
    let fixture = Fixture::new(
        "
attributes: [org, response.tokens]
rules:
  - { name: tokens, per: org, cost: { reserve: 40, settle: response.tokens }, limit: [100/h, 200/day] }
  - { name: calls, per: org, limit: 10/h }
  - { name: failures, per: org, limit: 10/h, count: response.status >= 500 }
  - { name: price, per: org, cost: { reserve: 10, settle: response.tokens * 2 }, limit: 100/h }
",
    );
    let acme = || Request::empty().attribute("org", "acme");
    let decision = decide(&fixture, &acme());
    fixture.clock.advance(Duration::from_nanos(1));
    let outcome = acme().attribute("response.tokens", 15).attribute("response.status", 200);
    support::settle(&decision, &outcome);
    let explained = support::explain(&fixture.limiter, &acme());
    let used: Vec<Vec<u64>> = explained
        .rules
        .iter()
        .map(|rule| {
            rule.limits.iter().map(|limit| limit.capacity - limit.remaining - limit.cost).collect()
        })
        .collect();
    assert_eq!(used, [vec![15, 15], vec![1], vec![0], vec![30]]);
}

#[test]
fn edited_rules_are_settled_on_the_counters_that_go_on() {
    let fixture = Fixture::new(TOKENS);
    let [early, late] = [decide(&fixture, &tokens(300)), decide(&fixture, &tokens(300))];
    let edited = TOKENS
        .replace("1000 tokens/h", "2000 tokens/h")
        .replace("settle: response.tokens", "settle: 1");
    fixture.replace(&edited);
    support::settle(&early, &used(100)); // the key is carried over by this
    assert_eq!(left(&fixture, &tokens(1)), 1_600);
    decide(&fixture, &tokens(100));
    support::settle(&late, &used(350)); // by what the rule said then
    assert_eq!(left(&fixture, &tokens(1)), 1_450);
}

#[test]
fn settling_a_removed_rule_is_harmless() {
    let fixture = Fixture::new(TOKENS);
    let decision = decide(&fixture, &tokens(300));
    fixture.replace("rules: [{ name: other, limit: 5/h }]");
    support::settle(&decision, &used(100));
    fixture.replace(TOKENS);
    assert_eq!(left(&fixture, &tokens(1)), 900);
}

#[test]
fn an_unreadable_cost_is_not_cheaper() {
    let fixture = Fixture::new(TOKENS);
    let request = Request::empty().attribute("org", "acme").unknown(&["body"]);
    let alone = decide(&fixture, &request);
    assert!(!fixture.limiter.decide_now(&tokens(1)).allowed, "it may take everything");
    support::settle(&alone, &used(10));
    assert_eq!(left(&fixture, &tokens(1)), 990);
    assert!(!fixture.limiter.decide_now(&request).allowed, "990 are not everything");

    for doubtful in ["0", "-5", "many", "7.5", "99999999999999999999"] {
        let fixture = Fixture::new(TOKENS);
        let request = Request::empty().attribute("org", "acme");
        decide(&fixture, &request.attribute("body.max_tokens", doubtful));
        assert!(!fixture.limiter.decide_now(&tokens(1)).allowed, "{doubtful}");
    }

    let otherwise = TOKENS.replace("body.max_tokens,", "body.max_tokens, else: 200,");
    let fixture = Fixture::new(&otherwise);
    decide(&fixture, &request);
    decide(&fixture, &tokens(0));
    decide(&fixture, &tokens(-1));
    decide(&fixture, &Request::empty().attribute("org", "acme"));
    assert_eq!(left(&fixture, &tokens(1)), 200);
}

#[test]
fn an_unknown_response_value_does_not_count_as_zero() {
    let fixture = Fixture::new(
        "rules: [{ name: login, limit: 3/h, count: 'response.body.error == \"password\"' }]",
    );
    let settle = |outcome: &Request<'_>| {
        let decision = decide(&fixture, &login());
        support::settle(&decision, outcome);
    };
    settle(&login()); // it was read, and said nothing
    settle(&login().attribute("response.body.error", "captcha"));
    assert_eq!(left(&fixture, &login()), 3);
    settle(&login().unknown(&["response.body"]));
    settle(&login().attribute("response.body.error", "password"));
    assert_eq!(left(&fixture, &login()), 1);
}

#[test]
fn a_value_that_does_not_count_was_never_seen() {
    let fixture = Fixture::new(
        "attributes: [user]\nrules: [{ name: stuffing, per: ip, limit: 2 distinct user/h, count: response.status == 401 }]",
    );
    let guess = |user: &'static str, status: i64| {
        let request = login().attribute("user", user);
        let decision = fixture.limiter.decide_now(&request);
        support::settle(&decision, &request.attribute("response.status", status));
        decision.allowed
    };
    assert!((0..5).all(|_| guess("ann", 200) && guess("bob", 200) && guess("eve", 200)));
    assert!(guess("ann", 401) && guess("ann", 401) && guess("bob", 401));
    assert!(!guess("eve", 200), "two accounts were guessed at");
    assert!(guess("ann", 401));
}

#[test]
fn an_unsent_request_costs_nothing_under_rules_with_outcomes() {
    let fixture = Fixture::new(
        "
attributes: [response.tokens]
rules:
  - { name: tokens, cost: { reserve: 40, settle: response.tokens }, limit: 100/h }
  - { name: calls, limit: 10/h }
",
    );
    let decision = decide(&fixture, &login());
    let (admission, request) = (decision.admission().unwrap(), login());
    support::block_on(admission.settle(Outcome::not_sent(&request))).unwrap();
    let explained = support::explain(&fixture.limiter, &login());
    assert_eq!(explained.rules[0].limits[0].remaining, 60);
    assert_eq!(explained.rules[1].limits[0].remaining, 8);
}

#[test]
fn a_test_case_may_contain_an_outcome() {
    let fixture = Fixture::new(&format!(
        "{TOKENS}
tests:
  - name: settled
    steps:
      - {{ request: POST / org=a body.max_tokens=900 response.tokens=100, expect: {{ remaining: 100 }} }}
      - {{ request: POST / org=a body.max_tokens=900, expect: {{ allow: true, remaining: 0 }} }}
"
    ));
    let results = fixture.limiter.rules().run_cases();
    assert!(results.iter().all(|case| case.passed()), "{results:?}");
}
