//! The text format of Prometheus.
//!
//! The crate `prometheus-client` is not used: it writes OpenMetrics, which names counters
//! differently, and it has counters that all threads share.

use std::fmt::{Display, Write};

use super::stripe::{HistogramTotals, bound};

/// A writer of metrics in the text format.
#[derive(Debug, Default)]
pub(crate) struct Exposition(String);

/// Label names with their values.
type Labels<'l> = &'l [(&'l str, &'l str)];

impl Exposition {
    /// Begins a metric: writes its HELP and TYPE lines.
    pub(crate) fn metric(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"));
    }

    pub(crate) fn sample(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        self.0.push_str(name);
        self.labels(labels, None);
        self.line(format_args!(" {value}"));
    }

    /// Writes a metric with a single sample without labels.
    pub(crate) fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.metric(name, kind, help);
        self.sample(name, &[], value);
    }

    pub(super) fn histogram(&mut self, name: &str, labels: Labels<'_>, times: &HistogramTotals) {
        let mut total = 0;
        for (bucket, count) in times.counts.iter().enumerate() {
            total += count;
            let bound = bound(bucket).map_or_else(|| "+Inf".to_owned(), |bound| bound.to_string());
            self.0.push_str(name);
            self.0.push_str("_bucket");
            self.labels(labels, Some(&bound));
            self.line(format_args!(" {total}"));
        }
        self.sample(&format!("{name}_sum"), labels, times.sum_ns as f64 / 1e9);
        self.sample(&format!("{name}_count"), labels, total);
    }

    fn labels(&mut self, labels: Labels<'_>, le: Option<&str>) {
        let all = labels.iter().copied().chain(le.map(|le| ("le", le)));
        for (index, (name, value)) in all.clone().enumerate() {
            self.0.push(if index == 0 { '{' } else { ',' });
            self.0.push_str(name);
            self.0.push_str("=\"");
            for character in value.chars() {
                match character {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    _ => self.0.push(character),
                }
            }
            self.0.push('"');
        }
        if all.count() > 0 {
            self.0.push('}');
        }
    }

    fn line(&mut self, line: impl Display) {
        // Writing to memory does not fail.
        let _ = writeln!(self.0, "{line}");
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_are_escaped() {
        let mut text = Exposition::default();
        text.sample("m", &[("rule", "a\"} 1\nm{x=\"\\")], 7);
        assert_eq!(text.into_text(), "m{rule=\"a\\\"} 1\\nm{x=\\\"\\\\\"} 7\n");
    }
}
