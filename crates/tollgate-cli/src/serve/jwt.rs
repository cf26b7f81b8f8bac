//! The settings of verified identities: tokens (JWT) and API keys of clients.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use clap::builder::BoolishValueParser;
use tollgate_server::Config;
use tollgate_server::client::parse_url;
use tollgate_server::config::{ApiKeyOptions, JwtAlgorithm, JwtKeySource, JwtOptions};

use crate::quantity::{duration, positive_duration};

/// The settings of verified identities: tokens (JWT) and API keys of clients.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Identities of clients (gateway and forward-auth)")]
pub(crate) struct IdentityArgs {
    /// Keys of tokens (JWT), whose verified claims are the attributes jwt.sub, jwt.plan and so on: a
    /// file of public keys (PEM or JWKS), or the URL of a JWKS [default: none]
    #[arg(long, env = "TOLLGATE_JWT_KEYS", value_name = "FILE|URL")]
    jwt_keys: Option<String>,
    /// Algorithms that tokens may be signed with; HS256 needs a shared secret in a JWKS file
    #[arg(
        long,
        env = "TOLLGATE_JWT_ALGORITHMS",
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "RS256,ES256,EdDSA",
        hide_short_help = true
    )]
    jwt_algorithms: Vec<JwtAlgorithm>,
    /// Accepted issuers of tokens [default: any that the keys belong to]
    #[arg(long, env = "TOLLGATE_JWT_ISSUER", value_name = "TEXT,…", value_delimiter = ',')]
    jwt_issuer: Vec<String>,
    /// Audiences of which a token must name one [default: not checked]
    #[arg(long, env = "TOLLGATE_JWT_AUDIENCE", value_name = "TEXT,…", value_delimiter = ',')]
    jwt_audience: Vec<String>,
    /// Tolerance for clocks that differ, in the dates of tokens
    #[arg(
        long,
        env = "TOLLGATE_JWT_LEEWAY",
        value_name = "TIME",
        value_parser = duration,
        default_value = "30s",
        hide_short_help = true
    )]
    jwt_leeway: Duration,
    /// Requests without a valid token are refused with 401 [default: they have no jwt attributes]
    #[arg(long, env = "TOLLGATE_JWT_REQUIRED", value_parser = BoolishValueParser::new())]
    jwt_required: bool,
    /// Interval at which the URL of the keys is requested
    #[arg(
        long,
        env = "TOLLGATE_JWT_REFRESH",
        value_name = "TIME",
        value_parser = positive_duration,
        default_value = "5min",
        hide_short_help = true
    )]
    jwt_refresh: Duration,
    /// File of API keys, a line each: SHA-256 of the key, name and plan of the client, which are the
    /// attributes apikey.name and apikey.plan [default: none]
    #[arg(long, env = "TOLLGATE_API_KEYS", value_name = "FILE")]
    api_keys: Option<PathBuf>,
    /// Header field with the API key
    #[arg(
        long,
        env = "TOLLGATE_API_KEY_HEADER",
        value_name = "NAME",
        default_value = "x-api-key",
        hide_short_help = true
    )]
    api_key_header: String,
}

impl IdentityArgs {
    /// Sets the identities of a server.
    pub(super) fn apply(&self, config: &mut Config) -> anyhow::Result<()> {
        if let Some(keys) = &self.jwt_keys {
            let source = match keys.contains("://") {
                true => JwtKeySource::Url(parse_url(keys).context("--jwt-keys")?),
                false => JwtKeySource::File(keys.into()),
            };
            let mut options = JwtOptions::new(source);
            options.algorithms = self.jwt_algorithms.clone();
            options.issuers = self.jwt_issuer.clone();
            options.audiences = self.jwt_audience.clone();
            options.leeway = self.jwt_leeway;
            options.required = self.jwt_required;
            options.refresh = self.jwt_refresh;
            config.identity.jwt = Some(options);
        } else if self.jwt_required || !self.jwt_issuer.is_empty() || !self.jwt_audience.is_empty()
        {
            anyhow::bail!("settings of tokens need their keys: give --jwt-keys, a file or a URL");
        }
        config.identity.api_keys = self.api_keys.clone().map(|file| {
            let mut options = ApiKeyOptions::new(file);
            options.header = self.api_key_header.clone();
            options
        });
        Ok(())
    }
}
