//! The settings of the data folder, the tokens and the secret of hashed keys.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use tollgate_server::Config;
use tollgate_server::config::read_key_secret;
use tollgate_server::rules_service::Tokens;

use crate::data_folder;

/// The settings of the data folder, the tokens and the secret of hashed keys.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Data and tokens")]
pub(crate) struct AccessArgs {
    /// Folder of the rules database, the tokens and the snapshot, created if missing [default:
    /// systemd's state directory, or tollgate-data]
    #[arg(long, env = "TOLLGATE_DATA", value_name = "DIR")]
    data: Option<PathBuf>,
    /// File of tokens for the admin API, one per line as name:token or name:token:role [default:
    /// tokens in the data folder]
    #[arg(long, env = "TOLLGATE_ADMIN_TOKENS", value_name = "FILE")]
    pub(super) admin_tokens: Option<PathBuf>,
    /// File of tokens for clients that request decisions [default: no token needed]
    #[arg(long, env = "TOLLGATE_DATA_TOKENS", value_name = "FILE")]
    pub(super) data_tokens: Option<PathBuf>,
    /// File with the secret for the hashes of API keys, cookies and other secrets in keys [default: a
    /// random one in the shared store or the data folder]
    #[arg(long, env = "TOLLGATE_KEY_SECRET_FILE", value_name = "FILE", hide_short_help = true)]
    key_secret_file: Option<PathBuf>,
}

impl AccessArgs {
    /// Returns the data folder.
    pub(super) fn data(&self) -> PathBuf {
        self.data.clone().unwrap_or_else(data_folder)
    }

    /// Reads the token files and the secret.
    pub(super) fn apply(&self, config: &mut Config) -> anyhow::Result<()> {
        config.data = Some(self.data());
        config.admin_tokens = self.admin_tokens.as_deref().map(tokens).transpose()?;
        config.data_tokens = self.data_tokens.as_deref().map(tokens).transpose()?;
        let secret = self.key_secret_file.as_deref().map(read_key_secret);
        config.key_secret = secret.transpose().context("--key-secret-file")?;
        Ok(())
    }
}

fn tokens(path: &Path) -> anyhow::Result<Tokens> {
    Tokens::read(path).with_context(|| format!("cannot use the tokens in {}", path.display()))
}
