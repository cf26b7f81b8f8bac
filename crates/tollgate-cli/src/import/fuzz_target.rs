//! The fuzz targets of the importers.

use tollgate_rules::Source;

use super::draft::RulesDraft;
use super::{checked, envoy, kong, limitador, nginx};

/// Imports any text as a file of Envoy's rate limit service.
pub fn import_envoy(bytes: &[u8]) {
    import(bytes, envoy::import);
}

/// Imports any text as a declarative configuration of Kong.
pub fn import_kong(bytes: &[u8]) {
    import(bytes, |sources| kong::import(sources).map(|draft| vec![draft]));
}

/// Imports any text as the limits of Limitador.
pub fn import_limitador(bytes: &[u8]) {
    import(bytes, limitador::import);
}

/// Imports any text as a configuration of nginx, unless it includes files of this machine.
pub fn import_nginx(bytes: &[u8]) {
    if memchr::memmem::find(bytes, b"include").is_none() {
        import(bytes, |sources| nginx::import(sources).map(|draft| vec![draft]));
    }
}

/// Imports a text: either there is an error that says where, or the rules are valid and every
/// finding is about a line of the text.
fn import(bytes: &[u8], read: impl Fn(&[Source]) -> anyhow::Result<Vec<RulesDraft>>) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let sources = [Source::new("fuzz.conf", text)];
    let drafts = match read(&sources) {
        Ok(drafts) => drafts,
        Err(error) => return assert!(!format!("{error:#}").is_empty()),
    };
    let lines = text.split('\n').count();
    for draft in &drafts {
        let rules = checked(draft).unwrap_or_else(|error| panic!("{error:#}"));
        assert!(!rules.contains(|c: char| c.is_control() && c != '\n'), "{rules:?}");
        for finding in &draft.findings {
            let is_in_text = |line: usize| (1..=lines).contains(&line);
            assert!(finding.line.is_none_or(is_in_text), "{finding:?}");
            assert!(!finding.message.is_empty());
        }
    }
}
