//! Runs the test cases of rule files under virtual time.

use std::time::Duration;

use tollgate_core::{Span, Time};

use crate::decide::ready::ready;
use crate::read::definition::{TestCase, TestStep};
use crate::read::diagnostic::{Diagnostic, Diagnostics};
use crate::read::document;
use crate::read::source::{Sources, Spanned};
use crate::read::{request_words, yaml};
use crate::{Decision, Request, RuleLimiter, Rules, Source};
use tollgate::limit::grammar;
use tollgate::testing::ManualClock;

/// The default start of a case: a Monday, at midnight UTC.
const BEGINNING: Time = Time::from_nanos(1_767_571_200_000_000_000);

/// A test case of a domain.
#[derive(Clone, Debug)]
pub(crate) struct DomainCase {
    pub(crate) domain: Box<str>,
    pub(crate) case: TestCase,
}

/// The result of a test case.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CaseResult {
    /// The name of the case, or its first request.
    pub name: String,
    /// The domain of the case.
    pub domain: String,
    /// The number of decided requests.
    pub requests: u64,
    /// The unmet expectations, with the location of each step.
    pub failures: Diagnostics,
}

impl CaseResult {
    /// Whether all expectations were met.
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }
}

impl Rules {
    /// Runs the test cases of the rule files, each separately and under virtual time.
    ///
    /// ```
    /// use tollgate_rules::Rules;
    ///
    /// let rules: Rules = "
    /// rules:
    ///   - { name: login, route: POST /login, per: ip, limit: 5/min }
    /// tests:
    ///   - name: five a minute
    ///     steps:
    ///       - { request: POST /login ip=203.0.113.7, times: 6, expect: { allow: 5, deny: 1 } }
    ///       - { at: 12s, request: POST /login ip=203.0.113.7, expect: allow }
    /// ".parse()?;
    /// assert!(rules.run_cases().iter().all(|case| case.passed()));
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn run_cases(&self) -> Vec<CaseResult> {
        let sources = &self.warnings().sources;
        self.cases().iter().map(|case| run(self, case, sources)).collect()
    }

    /// Runs test cases from a separate file: `tests:`, and `domain:` if there are several.
    pub fn run_cases_of(&self, source: Source) -> Result<Vec<CaseResult>, Diagnostics> {
        let sources: Sources = [source].into();
        let mut found = Diagnostics::new(sources.clone());
        let document = match yaml::parse(&sources[0].text, 0) {
            Ok(root) => document::read_test_cases(&root, &mut found),
            Err(error) => {
                found.push(error);
                return Err(found);
            }
        };
        if found.has_errors() {
            return Err(found);
        }
        let only = self.domain_names().next().unwrap_or_default();
        let domain = document.domain.as_ref().map_or(only, |name| name.as_str());
        let case = |case| DomainCase { domain: domain.into(), case };
        let cases = document.cases.into_iter().map(case);
        Ok(cases.map(|case| run(self, &case, &sources)).collect())
    }
}

fn run(rules: &Rules, case: &DomainCase, sources: &Sources) -> CaseResult {
    let start = case.case.starts.map_or(BEGINNING, Time::from_nanos);
    let clock = ManualClock::at(start);
    let limiter = RuleLimiter::builder().clock(&clock).build(rules.clone());
    let mut failures = Diagnostics::new(sources.clone());
    let mut requests = 0;
    for step in &case.case.steps {
        if let Some(at) = step.at {
            clock.set(start + Span::from(at));
        }
        requests += step.times;
        run_step(&limiter, &case.domain, step, &mut failures);
    }
    let first = || case.case.steps.first().map(|step| step.request.value.clone());
    let name = case.case.name.clone().or_else(first).unwrap_or_default();
    CaseResult { name, domain: case.domain.to_string(), requests, failures }
}

fn run_step(limiter: &RuleLimiter, domain: &str, step: &TestStep, failures: &mut Diagnostics) {
    let words = request_words::split_words(&step.request);
    let request = match Request::from_words(words.iter().map(String::as_str)) {
        Ok(request) => request,
        Err(problem) => {
            failures.push(Diagnostic::error("request", step.request.span, problem));
            return;
        }
    };
    // A step with an outcome is settled; a step without one never is.
    let request = request.domain(domain).cost(step.cost.unwrap_or(1)).unreported();
    let mut allowed = 0;
    let mut last = None;
    for _ in 0..step.times {
        let decision = limiter.decide_now(&request);
        allowed += u64::from(decision.allowed);
        if let Some(admission) = decision.admission() {
            // The memory store does not fail. A step has no end, so its permits stay taken.
            let _ = ready(admission.settle_early(&request));
            admission.detach();
        }
        last = Some(decision);
    }
    let Some(last) = last else { return };
    for (name, expected) in &step.expect {
        if let Some(got) = differs(name, expected, step.times, allowed, &last) {
            let message = format!("expected {} {}, got {got}", name.value, expected.value);
            let found = Diagnostic::error("test-failed", expected.span, message);
            failures.push(found.label(last.to_string()));
        }
    }
}

/// Describes the difference between the actual and the expected result; `None` if they agree.
fn differs(
    name: &str,
    expected: &Spanned<String>,
    times: u64,
    allowed: u64,
    last: &Decision,
) -> Option<String> {
    let expected = expected.as_str();
    let count = |got: u64| {
        let wanted = match expected {
            "true" => times,
            "false" => 0,
            number => number.parse().ok()?,
        };
        (wanted != got).then(|| format!("{got} of {times}"))
    };
    let text = |got: String| (got != expected).then_some(got);
    let span = |got: Option<Duration>| {
        let zero = expected.starts_with('0').then_some(Duration::ZERO);
        let wanted = grammar::span(expected).ok().map(Duration::from).or(zero);
        let shown = got.map_or_else(|| "none".to_owned(), |got| format!("{got:?}"));
        (got != wanted).then_some(shown)
    };
    match name {
        "allow" => count(allowed),
        "deny" => count(times - allowed),
        "rule" => text(last.rule().unwrap_or("none").to_owned()),
        "code" => text(last.code.to_string()),
        "remaining" => {
            let remaining = last.tightest().map(|limit| limit.verdict.remaining);
            text(remaining.map_or_else(|| "none".to_owned(), |number| number.to_string()))
        }
        "retry_after" => span(last.retry_after),
        "wait" => span(Some(last.wait)),
        _ => None,
    }
}
