//! Reads `priority`, and `then: { shed: { critical: 20%, normal: 30% } }`.

use super::DocumentReader;
use super::scalar::excerpt;
use crate::compile::policy::{Priority, Shed, Then};
use crate::read::definition::PriorityDefinition;
use crate::read::diagnostic::Diagnostic;
use crate::read::source::Spanned;
use crate::read::yaml::YamlNode;
use tollgate::limit::grammar;

const PRIORITY: [(&str, Priority); 3] =
    [("batch", Priority::Batch), ("normal", Priority::Normal), ("critical", Priority::Critical)];
/// The minimum percentage that remains for requests of every priority.
const LEFT_TO_ALL: u8 = 1;

impl DocumentReader<'_> {
    /// Reads a word, or an expression whose value is one: `header["x-priority"]`.
    pub(super) fn priority(&mut self, node: &YamlNode<'_>) -> Option<Spanned<PriorityDefinition>> {
        let text = self.text(node, "a priority")?;
        let is_name = |c: char| c.is_alphanumeric() || "_-".contains(c);
        let is_word = text.value.chars().all(is_name);
        if !is_word || self.declared.iter().any(|name| name == text.value) {
            let expression = PriorityDefinition::Expression(text.value.to_owned());
            return Some(Spanned::new(expression, node.span));
        }
        let word = self.choice(node, "priority", &PRIORITY);
        if word.is_none() {
            self.help(
                "use `critical`, `normal` or `batch`, or an expression such as header[\"x-priority\"]",
            );
        }
        word.map(|word| word.map(PriorityDefinition::Word))
    }

    /// Reads the shares reserved for critical and for normal requests.
    pub(super) fn shed(&mut self, node: &YamlNode<'_>) -> Option<Then> {
        if node.is_null() {
            return Some(Then::Shed(Shed::default()));
        }
        let fields = self.fields(node, "`shed`", &["critical", "normal"])?;
        let mut share = |name| match fields.get(name) {
            Some(node) => self.percent(node),
            None => Some(0),
        };
        let (critical, normal) = (share("critical")?, share("normal")?);
        if critical + normal > 100 - LEFT_TO_ALL {
            let message = format!(
                "{critical}% and {normal}% are reserved: that leaves nothing to requests of priority batch"
            );
            let diagnostic = Diagnostic::error("bad-number", node.span, message);
            self.diagnostics
                .push(diagnostic.help("reserve less, such as `{ critical: 20%, normal: 30% }`"));
            return None;
        }
        Some(Then::Shed(Shed { critical, normal }))
    }

    /// Reads a percentage such as `20%`.
    fn percent(&mut self, node: &YamlNode<'_>) -> Option<u8> {
        let text = self.text(node, "a share such as 20%")?;
        let number = |text: &str| grammar::number(text.trim()).ok().filter(|number| *number < 100);
        if let Some(percent) = text.value.trim().strip_suffix('%').and_then(number) {
            return Some(percent as u8);
        }
        let message = format!("{} is no share of the limit", excerpt(text.value));
        let diagnostic = Diagnostic::error("bad-number", node.span, message);
        self.diagnostics.push(match number(text.value) {
            Some(number) => diagnostic.fix(format!("{number}%")),
            None => diagnostic.help("write it as in `20%`, from 0% to 99%"),
        });
        None
    }
}
