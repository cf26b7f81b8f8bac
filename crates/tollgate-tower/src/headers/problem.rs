//! The body of a refusal: `application/problem+json` (RFC 9457) with the problem types of the
//! IETF's draft on rate limits.

use serde::Serialize;
use tollgate::rules::Reason;

use super::answer::Answer;

const TYPES: &str = "https://iana.org/assignments/http-problem-types#";

/// The body that tells a client why it was refused.
///
/// ```
/// use tollgate::{Limiter, Request};
/// use tollgate_tower::headers::{Answer, problem};
///
/// let limiter = Limiter::from_rules("rules: [{ name: api, limit: 1/min }]".parse()?);
/// let request = Request::new("GET", "/");
/// assert!(limiter.decide(&request).allowed);
/// let body = problem(&Answer::of(&limiter.decide(&request)));
/// assert!(body.starts_with(r#"{"code":"quota-exceeded""#));
/// assert!(body.contains(r#""violated-policies":["api"]"#));
/// # Ok::<(), tollgate::rules::Diagnostics>(())
/// ```
pub fn problem(answer: &Answer<'_>) -> String {
    let kind = kind(answer);
    let over = answer.policies().filter(|(_, limit)| !limit.allowed);
    let problem = Problem {
        code: kind.code,
        detail: detail(answer),
        reason: answer.reason.as_str(),
        retry_after_ms: answer.retry_after_ms,
        rule: answer.rule,
        status: answer.code,
        title: kind.title,
        type_uri: kind.type_uri(),
        violated: over.map(|(name, _)| name.to_string()).collect(),
    };
    serde_json::to_string(&problem).unwrap_or_default()
}

/// What is told, in the order of the alphabet.
#[derive(Serialize)]
struct Problem<'a> {
    code: &'a str,
    detail: String,
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    status: u16,
    title: &'a str,
    #[serde(rename = "type")]
    type_uri: String,
    #[serde(rename = "violated-policies", skip_serializing_if = "Vec::is_empty")]
    violated: Vec<String>,
}

struct Kind {
    /// Registered by the draft, or ours.
    registered: bool,
    code: &'static str,
    title: &'static str,
}

impl Kind {
    fn type_uri(&self) -> String {
        let prefix = if self.registered { TYPES } else { "urn:tollgate:" };
        format!("{prefix}{}", self.code)
    }
}

fn kind(answer: &Answer<'_>) -> Kind {
    let (registered, code, title) = match answer.reason {
        _ if answer.banned => (
            true,
            "abnormal-usage-detected",
            "Request not satisfied due to detection of abnormal request pattern",
        ),
        _ if answer.code == 503 => (
            true,
            "temporary-reduced-capacity",
            "Request cannot be satisfied due to temporary server capacity constraints",
        ),
        Reason::DeniedByRule => (false, "denied-by-rule", "A rule refuses this request"),
        Reason::KeyMissing => {
            (false, "key-missing", "The request lacks an attribute that a rule counts by")
        }
        _ => (
            true,
            "quota-exceeded",
            "Request cannot be satisfied as assigned quota has been exceeded",
        ),
    };
    Kind { registered, code, title }
}

pub(super) fn detail(answer: &Answer<'_>) -> String {
    let by = answer.rule.map(|rule| format!(" by the rule {rule:?}")).unwrap_or_default();
    match (answer.reason, answer.retry_after_s()) {
        (Reason::NeverFits, _) => format!("refused{by}: it asks for more than the limit can hold"),
        (Reason::StoreFailed, _) => format!("refused{by}: the counters could not be asked"),
        (_, Some(seconds)) => format!("refused{by}: come back in {seconds} s"),
        (_, None) => format!("refused{by}"),
    }
}

impl std::fmt::Display for super::answer::Name<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.number {
            1 => f.write_str(self.rule),
            number => write!(f, "{}-{number}", self.rule),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use tollgate::rules::{BanData, Data};
    use tollgate::{Limiter, Request, Rules};

    fn refused(rule: &str) -> Value {
        let rules: Rules = format!("rules: [{{ name: r, {rule} }}]").parse().unwrap();
        refused_by(rules)
    }

    fn refused_by(rules: Rules) -> Value {
        let limiter = Limiter::from_rules(rules);
        let ask = || limiter.decide(&Request::new("GET", "/").attribute("user", "ann"));
        let decision = (0..10).map(|_| ask()).find(|decision| !decision.allowed).unwrap();
        serde_json::from_str(&problem(&Answer::of(&decision))).unwrap()
    }

    #[test]
    fn every_refusal_has_its_type() {
        for (rule, code, uri) in [
            ("limit: 1/h", "quota-exceeded", TYPES),
            ("limit: 1/h, then: shed", "temporary-reduced-capacity", TYPES),
            ("when: user == 'ann', then: deny 403", "denied-by-rule", "urn:tollgate:"),
        ] {
            let body = refused(rule);
            assert_eq!(body["type"], format!("{uri}{code}"), "{rule}: {body}");
            assert_eq!((&body["code"], &body["rule"]), (&json!(code), &json!("r")));
        }
        assert_eq!(refused("limit: 1/h, then: shed")["status"], 503);
    }

    #[test]
    fn who_is_banned_is_told_so() {
        let rules: Rules = "rules: [{ name: r, per: user, limit: 10/h }]".parse().unwrap();
        let ban = BanData { rule: "r".into(), key: "ann".into(), ..BanData::default() };
        let data = Data { bans: vec![ban], ..Data::default() };
        let body = refused_by(rules.with_data(&data).unwrap());
        assert_eq!(body["type"], format!("{TYPES}abnormal-usage-detected"));
    }
}
