//! Costs and counts that are known only once a request was answered.
#![cfg(feature = "rules")]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use support::rules::Fixture;
use tollgate::Request;
use tollgate::rules::{Decision, Reason, SettledAs};

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

/// How many are left on the first limit.
fn left(fixture: &Fixture, request: &Request<'_>) -> u64 {
    fixture.limiter.explain(request).rules[0].limits[0].remaining + 1
}

fn decide(fixture: &Fixture, request: &Request<'_>) -> Decision {
    let decision = fixture.limiter.decide(request);
    assert!(decision.allowed, "{decision}");
    decision
}

/// What is told of every settlement.
fn told(fixture: &Fixture) -> Arc<Mutex<Vec<SettledAs>>> {
    let all = Arc::new(Mutex::new(Vec::new()));
    let told = all.clone();
    assert!(fixture.limiter.on_settled(move |_, _, as_what| told.lock().unwrap().push(as_what)));
    all
}

const TOKENS: &str = "
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
        fixture.limiter.settle(&decision, &with_status(status));
    }
    let denied = fixture.limiter.decide(&login());
    assert!(!denied.allowed);
    let wait = denied.retry_after.unwrap();
    fixture.clock.advance(wait - Duration::from_nanos(1));
    assert!(!fixture.limiter.decide(&login()).allowed);
    fixture.clock.advance(Duration::from_nanos(1));
    assert!(fixture.limiter.decide(&login()).allowed);
}

#[test]
fn guesses_in_flight_count_until_they_are_known_not_to() {
    for mode in ["enforce", "shadow"] {
        let fixture = Fixture::new(&format!(
            "rules: [{{ name: login, limit: 5/h fixed, count: response.status == 401, mode: {mode} }}]"
        ));
        let all: Vec<Decision> = (0..100).map(|_| fixture.limiter.decide(&login())).collect();
        let passed = |decision: &&Decision| decision.allowed && !decision.shadow_denied();
        let passed: Vec<&Decision> = all.iter().filter(passed).collect();
        assert_eq!(passed.len(), 5, "{mode}");
        // Two of them were right: two more may try.
        for (decision, status) in passed.iter().zip([200, 401, 401, 200, 401]) {
            fixture.limiter.settle(decision, &with_status(status));
        }
        let more = (0..10).map(|_| fixture.limiter.decide(&login()));
        let more = more.filter(|decision| decision.allowed && !decision.shadow_denied());
        assert_eq!(more.count(), 2, "{mode}");
    }
}

#[test]
fn who_says_the_outcome_with_the_request_is_charged_by_it() {
    let fixture =
        Fixture::new("rules: [{ name: login, limit: 2/h fixed, count: response.status == 401 }]");
    for _ in 0..10 {
        assert!(fixture.limiter.decide(&with_status(200)).allowed);
        assert!(fixture.limiter.decide(&login().unreported()).allowed, "only asked");
    }
    decide(&fixture, &with_status(401));
    decide(&fixture, &with_status(401));
    assert!(!fixture.limiter.decide(&login().unreported()).allowed);
}

#[test]
fn what_does_not_count_whatever_the_outcome_is_not_charged() {
    let fixture = Fixture::new(
        "rules: [{ name: login, limit: 1/h, count: 'method == \"POST\" && response.status == 401' }]",
    );
    let get = Request::new("GET", "/login");
    let all: Vec<_> = (0..10).map(|_| decide(&fixture, &get)).collect();
    assert_eq!(all.len(), 10, "a GET can never count");
    decide(&fixture, &login());
    assert!(!fixture.limiter.decide(&login()).allowed);
}

#[test]
fn a_cost_known_later_is_settled() {
    let fixture = Fixture::new(TOKENS);
    let all = told(&fixture);
    let decision = decide(&fixture, &tokens(800));
    assert_eq!(decision.tightest().unwrap().verdict.remaining, 200);
    fixture.limiter.settle(&decision, &used(100));
    assert_eq!(left(&fixture, &tokens(1)), 900);
    fixture.limiter.settle(&decision.clone(), &used(0));
    assert_eq!(left(&fixture, &tokens(1)), 900, "a decision is settled once");
    let decision = decide(&fixture, &tokens(100));
    fixture.limiter.settle(&decision, &used(1_000));
    assert!(!fixture.limiter.decide(&tokens(1)).allowed, "the overrun is owed");
    assert_eq!(*all.lock().unwrap(), [SettledAs::Refunded, SettledAs::Overrun]);
    let never = fixture.limiter.decide(&tokens(1_001));
    assert_eq!((never.reason, never.retry_after), (Reason::NeverFits, None));
}

#[test]
fn without_a_number_the_charge_stays() {
    let fixture = Fixture::new(TOKENS);
    let all = told(&fixture);
    for outcome in [tokens(1), tokens(1).attribute("response.tokens", "many"), used(-5)] {
        let decision = decide(&fixture, &tokens(100));
        fixture.limiter.settle(&decision, &outcome);
    }
    assert_eq!(left(&fixture, &tokens(1)), 700);
    assert_eq!(*all.lock().unwrap(), [SettledAs::Kept; 3]);
}

#[test]
fn after_its_time_nothing_goes_back_and_overruns_are_still_owed() {
    let fixture = Fixture::new(&TOKENS.replace("1000 tokens/h", "1000 tokens/year"));
    let all = told(&fixture);
    let holds = [decide(&fixture, &tokens(100)), decide(&fixture, &tokens(100))];
    fixture.clock.advance(MINUTE * 10);
    fixture.limiter.settle(&holds[0], &used(1));
    fixture.limiter.settle(&holds[1], &used(150));
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
        fixture.limiter.settle(&hold, &used(1));
        assert!(!fixture.limiter.decide(&tokens(1)).allowed, "{kind}: that minute is over");
    }
}

#[test]
fn several_rules_and_limits_are_settled_each_by_its_own_reckoning() {
    let fixture = Fixture::new(
        "
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
    fixture.limiter.settle(&decision, &outcome);
    let explained = fixture.limiter.explain(&acme());
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
    let edited = TOKENS.replace("1000 tokens/h", "2000 tokens/h").replace("response.tokens", "1");
    fixture.replace(&edited);
    fixture.limiter.settle(&early, &used(100)); // the key is carried over by this
    assert_eq!(left(&fixture, &tokens(1)), 1_600);
    decide(&fixture, &tokens(100));
    fixture.limiter.settle(&late, &used(350)); // by what the rule said then
    assert_eq!(left(&fixture, &tokens(1)), 1_450);
}

#[test]
fn a_rule_that_is_gone_is_settled_without_harm() {
    let fixture = Fixture::new(TOKENS);
    let decision = decide(&fixture, &tokens(300));
    fixture.replace("rules: [{ name: other, limit: 5/h }]");
    fixture.limiter.settle(&decision, &used(100));
    fixture.replace(TOKENS);
    assert_eq!(left(&fixture, &tokens(1)), 900);
}

#[test]
fn what_cannot_be_read_is_not_cheaper() {
    let fixture = Fixture::new(TOKENS);
    let request = Request::empty().attribute("org", "acme").unknown(&["body"]);
    let alone = decide(&fixture, &request);
    assert!(!fixture.limiter.decide(&tokens(1)).allowed, "it may take everything");
    fixture.limiter.settle(&alone, &used(10));
    assert_eq!(left(&fixture, &tokens(1)), 990);
    assert!(!fixture.limiter.decide(&request).allowed, "990 are not everything");

    for doubtful in ["0", "-5", "many", "7.5", "99999999999999999999"] {
        let fixture = Fixture::new(TOKENS);
        let request = Request::empty().attribute("org", "acme");
        decide(&fixture, &request.attribute("body.max_tokens", doubtful));
        assert!(!fixture.limiter.decide(&tokens(1)).allowed, "{doubtful}");
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
fn what_is_unknown_of_an_answer_is_not_taken_for_nothing() {
    let fixture = Fixture::new(
        "rules: [{ name: login, limit: 3/h, count: 'response.body.error == \"password\"' }]",
    );
    let settle = |outcome: &Request<'_>| {
        let decision = decide(&fixture, &login());
        fixture.limiter.settle(&decision, outcome);
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
        "rules: [{ name: stuffing, per: ip, limit: 2 distinct user/h, count: response.status == 401 }]",
    );
    let guess = |user: &'static str, status: i64| {
        let request = login().attribute("user", user);
        let decision = fixture.limiter.decide(&request);
        fixture.limiter.settle(&decision, &request.attribute("response.status", status));
        decision.allowed
    };
    assert!((0..5).all(|_| guess("ann", 200) && guess("bob", 200) && guess("eve", 200)));
    assert!(guess("ann", 401) && guess("ann", 401) && guess("bob", 401));
    assert!(!guess("eve", 200), "two accounts were guessed at");
    assert!(guess("ann", 401));
}

#[test]
fn what_was_never_sent_costs_nothing_where_outcomes_matter() {
    let fixture = Fixture::new(
        "
rules:
  - { name: tokens, cost: { reserve: 40, settle: response.tokens }, limit: 100/h }
  - { name: calls, limit: 10/h }
",
    );
    let decision = decide(&fixture, &login());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let not_sent = std::pin::pin!(fixture.limiter.not_sent(&decision));
    assert!(std::future::Future::poll(not_sent, &mut context).is_ready());
    let explained = fixture.limiter.explain(&login());
    assert_eq!(explained.rules[0].limits[0].remaining, 60);
    assert_eq!(explained.rules[1].limits[0].remaining, 8);
}

#[test]
fn a_case_beside_the_rules_may_say_how_it_went() {
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
