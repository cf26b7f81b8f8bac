//! `priority`, and `then: { shed: { critical: 20%, normal: 30% } }`.

use super::Reader;
use super::scalar::shown;
use crate::limit::grammar;
use crate::rules::diagnostic::Diagnostic;
use crate::rules::policy::{Priority, Shed, Then};
use crate::rules::source::At;
use crate::rules::written;
use crate::rules::yaml::Node;

const PRIORITY: [(&str, Priority); 3] =
    [("batch", Priority::Batch), ("normal", Priority::Normal), ("critical", Priority::Critical)];
/// What is kept leaves at least this much to everybody.
const LEFT_TO_ALL: u8 = 1;

impl Reader<'_> {
    /// A word, or an expression that says it: `header["x-priority"]`.
    pub(super) fn priority(&mut self, node: &Node<'_>) -> Option<At<written::Priority>> {
        let text = self.text(node, "a priority")?;
        let is_name = |c: char| c.is_alphanumeric() || "_-".contains(c);
        let is_word = text.value.chars().all(is_name);
        if !is_word || self.declared.iter().any(|name| name == text.value) {
            let expression = written::Priority::Expression(text.value.to_owned());
            return Some(At::new(expression, node.place));
        }
        let word = self.choice(node, "priority", &PRIORITY);
        if word.is_none() {
            self.help(
                "use `critical`, `normal` or `batch`, or say where it comes from: header[\"x-priority\"]",
            );
        }
        word.map(|word| word.map(written::Priority::Word))
    }

    /// What is kept for whom.
    pub(super) fn shed(&mut self, node: &Node<'_>) -> Option<Then> {
        if node.is_null() {
            return Some(Then::Shed(Shed::default()));
        }
        let fields = self.fields(node, "`shed`", &["critical", "normal"])?;
        let mut kept = |name| match fields.get(name) {
            Some(node) => self.percent(node),
            None => Some(0),
        };
        let (critical, normal) = (kept("critical")?, kept("normal")?);
        if critical + normal > 100 - LEFT_TO_ALL {
            let message = format!(
                "{critical}% and {normal}% are kept: that leaves nothing to requests of priority batch"
            );
            let found = Diagnostic::error("bad-number", node.place, message);
            self.found.push(found.help("keep less, such as `{ critical: 20%, normal: 30% }`"));
            return None;
        }
        Some(Then::Shed(Shed { critical, normal }))
    }

    /// `20%`.
    fn percent(&mut self, node: &Node<'_>) -> Option<u8> {
        let text = self.text(node, "a share such as 20%")?;
        let number = |text: &str| grammar::number(text.trim()).ok().filter(|number| *number < 100);
        if let Some(percent) = text.value.trim().strip_suffix('%').and_then(number) {
            return Some(percent as u8);
        }
        let message = format!("{} is no share of the limit", shown(text.value));
        let found = Diagnostic::error("bad-number", node.place, message);
        self.found.push(match number(text.value) {
            Some(number) => found.fix(format!("{number}%")),
            None => found.help("write it as in `20%`, from 0% to 99%"),
        });
        None
    }
}
