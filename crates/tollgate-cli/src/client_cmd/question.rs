//! What is asked about: a request by rules, or a key by a limit of one's own.

use anyhow::bail;
use clap::Args;
use serde_json::{Map, Value, json};

use crate::ask::pair;

/// A request by rules, or a key by a limit of one's own.
#[derive(Args, Debug)]
pub(crate) struct Question {
    /// The domain whose rules decide
    #[arg(value_name = "DOMAIN", conflicts_with = "limit")]
    pub(super) domain: Option<String>,

    /// What is known about the request
    #[arg(value_name = "NAME=VALUE", value_parser = pair)]
    attributes: Vec<(String, String)>,

    /// The key to count by, with --limit
    #[arg(long, env = "TOLLGATE_CHECK_KEY")]
    pub(super) key: Option<String>,

    /// The limit, such as "10/s burst 20", with --key
    #[arg(long, env = "TOLLGATE_CHECK_LIMIT", requires = "key", allow_hyphen_values = true)]
    limit: Option<String>,
}

impl Question {
    /// Whether the limit comes along.
    pub(super) fn brings_limit(&self) -> bool {
        self.limit.is_some()
    }

    /// As the HTTP door takes it.
    pub(super) fn body(&self) -> anyhow::Result<Value> {
        match (&self.domain, &self.key, &self.limit) {
            (None, Some(key), Some(limit)) => Ok(json!({ "key": key, "limit": limit })),
            (_, Some(_), None) => bail!("--key comes with --limit, such as --limit \"10/s\""),
            (Some(domain), _, _) => {
                let pairs = self.attributes.iter();
                let attributes: Map<String, Value> =
                    pairs.map(|(name, value)| (name.clone(), json!(value))).collect();
                Ok(json!({ "domain": domain, "attributes": attributes }))
            }
            (None, None, _) => bail!("give a domain, or --key and --limit"),
        }
    }
}
