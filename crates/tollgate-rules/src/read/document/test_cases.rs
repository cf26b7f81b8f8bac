//! Reads test cases: requests, their times and the expected decisions.

use super::{DocumentReader, MAX_ENTRIES};
use crate::read::definition::{Document, TestCase, TestStep};
use crate::read::diagnostic::Diagnostic;
use crate::read::source::Spanned;
use crate::read::yaml::{YamlNode, YamlValue};

/// The maximum number of requests of all cases of a file, which run within seconds.
const MAX_REQUESTS: u64 = 1_000_000;
const CASE: [&str; 3] = ["name", "starts", "steps"];
const STEP: [&str; 6] = ["name", "at", "request", "cost", "times", "expect"];
const EXPECT: [&str; 7] = ["allow", "deny", "rule", "code", "remaining", "retry_after", "wait"];

impl DocumentReader<'_> {
    /// Reads a file that contains nothing but test cases.
    pub(super) fn cases_only(&mut self, root: &YamlNode<'_>) -> Document {
        let mut document = Document { span: root.span, ..Document::default() };
        let Some(fields) = self.fields(root, "a file of tests", &["domain", "tests"]) else {
            return document;
        };
        document.domain = fields.get("domain").and_then(|node| self.name(node, "a domain"));
        if let Some(node) = self.require(&fields, "tests", "a file of tests", "tests: []") {
            document.cases = self.cases(node);
        }
        document
    }

    pub(super) fn cases(&mut self, node: &YamlNode<'_>) -> Vec<TestCase> {
        let nodes = self.list(node, "a list of test cases", MAX_ENTRIES);
        let cases = self.each(nodes, Self::case);
        let steps = cases.iter().flat_map(|case| &case.steps);
        let requests = steps.fold(0, |sum: u64, step| sum.saturating_add(step.times));
        if requests > MAX_REQUESTS {
            let message = format!(
                "the cases of a file are at most {MAX_REQUESTS} requests, these are {requests}"
            );
            self.diagnostics.push(Diagnostic::error("too-many", node.span, message));
        }
        cases
    }

    /// Reads a name and steps, or one step that is a case by itself.
    fn case(&mut self, node: &YamlNode<'_>) -> Option<TestCase> {
        let is_steps = |(key, _): &(YamlNode<'_>, YamlNode<'_>)| key.text() == Some("steps");
        if !matches!(&node.value, YamlValue::Map(pairs) if pairs.iter().any(is_steps)) {
            let (step, name) = self.step(node)?;
            return Some(TestCase { name, starts: None, steps: vec![step] });
        }
        let fields = self.fields(node, "a test case", &CASE)?;
        let name = fields.get("name").and_then(|node| self.owned(node, "a name"));
        let starts = fields.get("starts").and_then(|node| self.until(node));
        let starts = starts.map(|starts| starts.value);
        let steps = fields.get("steps")?;
        let nodes = self.several(steps, "a list of steps", MAX_ENTRIES);
        let steps = self.each(nodes, |reader, node| reader.step(node).map(|(step, _)| step));
        Some(TestCase { name: name.map(|name| name.value), starts, steps })
    }

    fn step(&mut self, node: &YamlNode<'_>) -> Option<(TestStep, Option<String>)> {
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
        let step =
            TestStep { at, request: request?, cost: cost.map(|cost| cost.value), times, expect };
        Some((step, name.map(|name| name.value)))
    }

    /// Reads the time of a step; the beginning is `0s`, or plainly `0`.
    fn offset(&mut self, node: &YamlNode<'_>) -> Option<std::time::Duration> {
        match node.text() {
            Some("0" | "0s" | "0ms" | "0min" | "0h") => Some(std::time::Duration::ZERO),
            _ => self.duration(node, "a time since the case began, such as 10s"),
        }
    }

    /// Reads `allow`, `deny`, or a mapping of more expectations.
    fn expect(
        &mut self,
        node: &YamlNode<'_>,
        times: u64,
    ) -> Vec<(Spanned<String>, Spanned<String>)> {
        if !matches!(node.value, YamlValue::Map(_)) {
            let word = self.choice(node, "expect", &[("allow", "allow"), ("deny", "deny")]);
            let truth = |word: &Spanned<&str>| Spanned::new("true".to_owned(), word.span);
            return word
                .map(|word| (word.clone().map(str::to_owned), truth(&word)))
                .into_iter()
                .collect();
        }
        let Some(fields) = self.fields(node, "`expect`", &EXPECT) else { return Vec::new() };
        let mut expected = Vec::new();
        for (name, span) in fields.present() {
            let Some(node) = fields.get(name) else { continue };
            let valid = match name {
                // A number of the requests, or all or none.
                "allow" | "deny" if matches!(node.text(), Some("true" | "false")) => true,
                "allow" | "deny" => {
                    self.number(node, "true, false or a number of requests", 0..=times).is_some()
                }
                "rule" => self.name(node, "a rule").is_some(),
                "code" => self.number(node, "a status", 100..=599).is_some(),
                "remaining" => self.number(node, "a number", 0..=u64::MAX).is_some(),
                _ => self.offset(node).is_some(),
            };
            if let (true, Some(text)) = (valid, node.text()) {
                expected.push((
                    Spanned::new(name.to_owned(), span),
                    Spanned::new(text.to_owned(), node.span),
                ));
            }
        }
        if expected.is_empty() && fields.present().next().is_none() {
            let diagnostic = Diagnostic::error("empty", node.span, "this expects nothing");
            self.diagnostics.push(diagnostic.help("write `expect: allow` or `expect: deny`"));
        }
        expected
    }
}
