//! The arguments that describe a decision: a request under rules, or a key with an inline limit.

use anyhow::bail;
use clap::Args;
use serde_json::{Map, Value, json};

use crate::service_client::parse_pair;

/// A request under rules, or a key with an inline limit.
#[derive(Args, Debug)]
pub(crate) struct DecisionArgs {
    /// Domain whose rules decide
    #[arg(value_name = "DOMAIN", conflicts_with = "limit")]
    pub(super) domain: Option<String>,

    /// Attributes of the request
    #[arg(value_name = "NAME=VALUE", value_parser = parse_pair)]
    attributes: Vec<(String, String)>,

    /// Key to count by, with --limit
    #[arg(long, env = "TOLLGATE_CHECK_KEY")]
    pub(super) key: Option<String>,

    /// Limit, such as "10/s burst 20", with --key
    #[arg(long, env = "TOLLGATE_CHECK_LIMIT", requires = "key", allow_hyphen_values = true)]
    limit: Option<String>,
}

impl DecisionArgs {
    /// Returns whether the limit is given inline.
    pub(super) fn has_inline_limit(&self) -> bool {
        self.limit.is_some()
    }

    /// Returns the body of the HTTP request.
    pub(super) fn body(&self) -> anyhow::Result<Value> {
        match (&self.domain, &self.key, &self.limit) {
            (None, Some(key), Some(limit)) => Ok(json!({ "key": key, "limit": limit })),
            (_, Some(_), None) => bail!("--key needs a limit: add one, such as --limit \"10/s\""),
            (Some(domain), _, _) => {
                let pairs = self.attributes.iter();
                let attributes: Map<String, Value> =
                    pairs.map(|(name, value)| (name.clone(), json!(value))).collect();
                Ok(json!({ "domain": domain, "attributes": attributes }))
            }
            (None, None, _) => bail!("nothing to decide: give a domain, or --key and --limit"),
        }
    }
}
