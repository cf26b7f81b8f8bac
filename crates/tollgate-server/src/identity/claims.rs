//! The claims of a token, as attributes and as conditions of its validity.

use serde_json::{Map, Value as Json};
use tollgate_rules::Value;

use super::VerifiedIdentity;
use super::options::JwtOptions;
use super::token::TokenError;

/// The prefix of attributes that are claims.
const PREFIX: &str = "jwt";
/// The maximum number of claims that are attributes.
const MAX_CLAIMS: usize = 64;
/// The maximum depth of claims within claims.
const MAX_DEPTH: usize = 4;

/// The times at which a token is valid, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    not_before_s: u64,
    expires_s: u64,
}

impl Validity {
    /// Checks a time; `leeway_s` is the tolerance for clocks that differ.
    pub(super) fn check(self, unix_s: u64, leeway_s: u64) -> Result<(), TokenError> {
        if unix_s >= self.expires_s.saturating_add(leeway_s) {
            Err(TokenError::Expired)
        } else if unix_s.saturating_add(leeway_s) < self.not_before_s {
            Err(TokenError::NotYetValid)
        } else {
            Ok(())
        }
    }
}

/// Reads the claims of a token whose signature is verified, and checks issuer and audience.
pub(super) fn read_claims(
    payload: &[u8],
    options: &JwtOptions,
) -> Result<(VerifiedIdentity, Validity), TokenError> {
    let claims: Map<String, Json> =
        serde_json::from_slice(payload).map_err(|_| TokenError::Malformed)?;
    let is_listed = |listed: &[String], claim: &Json| {
        claim.as_str().is_some_and(|text| listed.iter().any(|listed| listed == text))
    };
    let issuer = claims.get("iss").unwrap_or(&Json::Null);
    if !options.issuers.is_empty() && !is_listed(&options.issuers, issuer) {
        return Err(TokenError::WrongIssuer);
    }
    if !options.audiences.is_empty() {
        let is_meant = match claims.get("aud") {
            Some(Json::Array(all)) => all.iter().any(|one| is_listed(&options.audiences, one)),
            Some(one) => is_listed(&options.audiences, one),
            None => false,
        };
        if !is_meant {
            return Err(TokenError::WrongAudience);
        }
    }
    let validity = Validity {
        not_before_s: date(&claims, "nbf")?.unwrap_or(0),
        expires_s: date(&claims, "exp")?.unwrap_or(u64::MAX),
    };
    let mut identity = VerifiedIdentity::default();
    add_claims(PREFIX, &claims, MAX_DEPTH, &mut identity)?;
    remove_ambiguous(&mut identity);
    Ok((identity, validity))
}

/// Returns a date, which may have a fraction: `exp` is rounded down, and so is `nbf`.
fn date(claims: &Map<String, Json>, name: &str) -> Result<Option<u64>, TokenError> {
    match claims.get(name) {
        None => Ok(None),
        Some(Json::Number(number)) => match number.as_f64() {
            Some(seconds) if seconds >= 0.0 => Ok(Some(seconds as u64)),
            _ => Err(TokenError::Malformed),
        },
        Some(_) => Err(TokenError::Malformed),
    }
}

/// Adds claims with one value: texts, whole numbers, flags, and those within other claims
/// (`jwt.org.plan`). Lists have no single value, and are no attributes.
fn add_claims(
    prefix: &str,
    claims: &Map<String, Json>,
    depth: usize,
    identity: &mut VerifiedIdentity,
) -> Result<(), TokenError> {
    for (name, claim) in claims {
        let name = format!("{prefix}.{name}");
        let value = match claim {
            Json::String(text) => Value::Text(text.clone().into()),
            Json::Bool(flag) => Value::Flag(*flag),
            Json::Number(number) => match number.as_i64() {
                Some(number) => Value::Number(number),
                None => continue,
            },
            Json::Object(inner) if depth > 1 => {
                add_claims(&name, inner, depth - 1, identity)?;
                continue;
            }
            _ => continue,
        };
        if identity.attributes.len() == MAX_CLAIMS {
            return Err(TokenError::TooManyClaims);
        }
        identity.attributes.push((name, value));
    }
    Ok(())
}

/// Removes names that two claims have: `{"a": {"b": 1}, "a.b": 2}`.
fn remove_ambiguous(identity: &mut VerifiedIdentity) {
    let attributes = &mut identity.attributes;
    attributes.sort_by(|(one, _), (other, _)| one.cmp(other));
    let names: Vec<String> = attributes.iter().map(|(name, _)| name.clone()).collect();
    attributes.retain(|(name, _)| names.iter().filter(|known| *known == name).count() == 1);
}

#[cfg(test)]
mod tests {
    use super::super::JwtKeySource;
    use super::*;

    fn read(claims: &str) -> Result<Vec<String>, TokenError> {
        let mut options = JwtOptions::new(JwtKeySource::File("keys".into()));
        options.issuers = vec!["https://id.example".into()];
        options.audiences = vec!["api".into(), "api2".into()];
        let with = claims.replacen('{', r#"{"iss":"https://id.example","aud":["x","api2"],"#, 1);
        let (identity, _) = read_claims(with.as_bytes(), &options)?;
        let shown = identity.attributes.iter().filter(|(name, _)| name != "jwt.iss");
        Ok(shown.map(|(name, value)| format!("{name}={}", value.text())).collect())
    }

    #[test]
    fn claims_with_one_value_are_attributes() {
        let claims = r#"{"sub":"ann","plan":"pro","seats":3,"admin":true,"roles":["a"],"x":null,
                         "org":{"id":7,"deep":{"er":{"and":{"deeper":1}}}},"f":1.5}"#;
        let expected =
            ["jwt.admin=true", "jwt.org.id=7", "jwt.plan=pro", "jwt.seats=3", "jwt.sub=ann"];
        assert_eq!(read(claims).unwrap(), expected);
        assert_eq!(read(r#"{"a":{"b":1},"a.b":2,"c":3}"#).unwrap(), ["jwt.c=3"], "two readings");
        let many: Vec<String> = (0..65).map(|number| format!("\"c{number}\":1")).collect();
        assert_eq!(read(&format!("{{{}}}", many.join(","))), Err(TokenError::TooManyClaims));
    }

    #[test]
    fn issuer_and_audience_must_be_the_configured_ones() {
        let mut options = JwtOptions::new(JwtKeySource::File("keys".into()));
        options.issuers = vec!["a".into()];
        options.audiences = vec!["b".into()];
        let found = |claims: &str| read_claims(claims.as_bytes(), &options).map(drop);
        assert_eq!(found(r#"{"iss":"a","aud":"b"}"#), Ok(()));
        assert_eq!(found(r#"{"iss":"A","aud":"b"}"#), Err(TokenError::WrongIssuer));
        assert_eq!(found(r#"{"iss":["a"],"aud":"b"}"#), Err(TokenError::WrongIssuer));
        assert_eq!(found(r#"{"aud":"b"}"#), Err(TokenError::WrongIssuer));
        assert_eq!(found(r#"{"iss":"a","aud":"bb"}"#), Err(TokenError::WrongAudience));
        assert_eq!(found(r#"{"iss":"a","aud":["c",["b"]]}"#), Err(TokenError::WrongAudience));
        assert_eq!(found(r#"{"iss":"a"}"#), Err(TokenError::WrongAudience));
        assert_eq!(found(r#"{"iss":"a","aud":"b","exp":"soon"}"#), Err(TokenError::Malformed));
        assert_eq!(found(r#"{"iss":"a","aud":"b","nbf":-1}"#), Err(TokenError::Malformed));
        assert_eq!(found("[]"), Err(TokenError::Malformed));
    }

    #[test]
    fn dates_are_exact_to_the_second() {
        let validity = Validity { not_before_s: 100, expires_s: 200 };
        assert_eq!(validity.check(90, 10), Ok(()));
        assert_eq!(validity.check(89, 10), Err(TokenError::NotYetValid));
        assert_eq!(validity.check(209, 10), Ok(()));
        assert_eq!(validity.check(210, 10), Err(TokenError::Expired));
        assert_eq!(validity.check(200, 0), Err(TokenError::Expired));
        let always = Validity { not_before_s: 0, expires_s: u64::MAX };
        assert_eq!(always.check(u64::MAX - 1, 10), Ok(()));
    }
}
