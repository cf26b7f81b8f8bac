//! Test cases beside the rules: a request, when, and what is expected of it.

use super::{MAX_ENTRIES, Reader};
use crate::rules::diagnostic::Diagnostic;
use crate::rules::source::At;
use crate::rules::written::{Case, Document, Step};
use crate::rules::yaml::{Node, Value};

/// The most requests of all cases of a file: it is read in no time, and tested in seconds.
const MAX_REQUESTS: u64 = 1_000_000;
const CASE: [&str; 3] = ["name", "starts", "steps"];
const STEP: [&str; 6] = ["name", "at", "request", "cost", "times", "expect"];
const EXPECT: [&str; 7] = ["allow", "deny", "rule", "code", "remaining", "retry_after", "wait"];

impl Reader<'_> {
    /// A file that holds nothing but cases.
    pub(super) fn cases_only(&mut self, root: &Node<'_>) -> Document {
        let mut document = Document { place: root.place, ..Document::default() };
        let Some(fields) = self.fields(root, "a file of tests", &["domain", "tests"]) else {
            return document;
        };
        document.domain = fields.get("domain").and_then(|node| self.name(node, "a domain"));
        if let Some(node) = self.require(&fields, "tests", "a file of tests", "tests: []") {
            document.cases = self.cases(node);
        }
        document
    }

    pub(super) fn cases(&mut self, node: &Node<'_>) -> Vec<Case> {
        let nodes = self.list(node, "a list of test cases", MAX_ENTRIES);
        let cases = self.each(nodes, Self::case);
        let steps = cases.iter().flat_map(|case| &case.steps);
        let requests = steps.fold(0, |sum: u64, step| sum.saturating_add(step.times));
        if requests > MAX_REQUESTS {
            let message = format!(
                "the cases of a file are at most {MAX_REQUESTS} requests, these are {requests}"
            );
            self.found.push(Diagnostic::error("too-many", node.place, message));
        }
        cases
    }

    /// A name and steps, or one step that is a case by itself.
    fn case(&mut self, node: &Node<'_>) -> Option<Case> {
        let is_steps = |(key, _): &(Node<'_>, Node<'_>)| key.text() == Some("steps");
        if !matches!(&node.value, Value::Map(pairs) if pairs.iter().any(is_steps)) {
            let (step, name) = self.step(node)?;
            return Some(Case { name, starts: None, steps: vec![step] });
        }
        let fields = self.fields(node, "a test case", &CASE)?;
        let name = fields.get("name").and_then(|node| self.owned(node, "a name"));
        let starts = fields.get("starts").and_then(|node| self.until(node));
        let starts = starts.map(|starts| starts.value);
        let steps = fields.get("steps")?;
        let nodes = self.several(steps, "a list of steps", MAX_ENTRIES);
        let steps = self.each(nodes, |reader, node| reader.step(node).map(|(step, _)| step));
        Some(Case { name: name.map(|name| name.value), starts, steps })
    }

    fn step(&mut self, node: &Node<'_>) -> Option<(Step, Option<String>)> {
        let fields = self.fields(node, "a step of a test", &STEP)?;
        let name = fields.get("name").and_then(|node| self.owned(node, "a name"));
        let at = fields.get("at").and_then(|node| self.offset(node));
        let example = "request: POST /login ip=192.0.2.7";
        let request = self.require(&fields, "request", "a step of a test", example);
        let request =
            request.and_then(|node| self.owned(node, "a request such as POST /login ip=192.0.2.7"));
        let cost = fields.get("cost").and_then(|node| self.number(node, "a cost", 0..=u64::MAX));
        let times =
            fields.get("times").and_then(|node| self.number(node, "how often", 1..=1_000_000));
        let times = times.map_or(1, |times| times.value);
        let expect = self.require(&fields, "expect", "a step of a test", "expect: allow");
        let expect = expect.map(|node| self.expect(node, times)).unwrap_or_default();
        let step = Step { at, request: request?, cost: cost.map(|cost| cost.value), times, expect };
        Some((step, name.map(|name| name.value)))
    }

    /// When a step happens; the beginning is `0s`, or plainly `0`.
    fn offset(&mut self, node: &Node<'_>) -> Option<std::time::Duration> {
        match node.text() {
            Some("0" | "0s" | "0ms" | "0min" | "0h") => Some(std::time::Duration::ZERO),
            _ => self.duration(node, "a time since the case began, such as 10s"),
        }
    }

    /// `allow`, `deny`, or a mapping of more.
    fn expect(&mut self, node: &Node<'_>, times: u64) -> Vec<(At<String>, At<String>)> {
        if !matches!(node.value, Value::Map(_)) {
            let word = self.choice(node, "expect", &[("allow", "allow"), ("deny", "deny")]);
            let truth = |word: &At<&str>| At::new("true".to_owned(), word.place);
            return word
                .map(|word| (word.clone().map(str::to_owned), truth(&word)))
                .into_iter()
                .collect();
        }
        let Some(fields) = self.fields(node, "`expect`", &EXPECT) else { return Vec::new() };
        let mut expected = Vec::new();
        for (name, place) in fields.present() {
            let Some(node) = fields.get(name) else { continue };
            let good = match name {
                // So many of them, or all or none.
                "allow" | "deny" if matches!(node.text(), Some("true" | "false")) => true,
                "allow" | "deny" => {
                    self.number(node, "true, false or a number of requests", 0..=times).is_some()
                }
                "rule" => self.name(node, "a rule").is_some(),
                "code" => self.number(node, "a status", 100..=599).is_some(),
                "remaining" => self.number(node, "a number", 0..=u64::MAX).is_some(),
                _ => self.offset(node).is_some(),
            };
            if let (true, Some(text)) = (good, node.text()) {
                expected
                    .push((At::new(name.to_owned(), place), At::new(text.to_owned(), node.place)));
            }
        }
        if expected.is_empty() && fields.present().next().is_none() {
            let found = Diagnostic::error("empty", node.place, "this expects nothing");
            self.found.push(found.help("write `expect: allow` or `expect: deny`"));
        }
        expected
    }
}
