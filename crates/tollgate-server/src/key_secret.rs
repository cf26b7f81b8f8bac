//! The secret of the hashes in keys: from a setting, from the shared store or from the data folder.
//!
//! All servers that share a store must hash alike, or a client would have a budget at each of them.
//! Without a setting, the first server therefore puts a random secret into the store. Others read
//! it, and compare it from time to time, because a store can lose its content.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tollgate_redis::{RedisClient, ServerFunction, ServerReply};
use tollgate_rules::KeySecret;

use crate::background::{self, BackgroundWorker};
use crate::config::Config;
use crate::disk;
use crate::net::Drain;
use crate::secret::Secret;
use crate::server::StartError;
use crate::store::{AnyLimiter, AnyStore};

/// The name of the file in the data folder.
const FILE: &str = "key-secret";
/// The tag of the key in the store.
const TAG: &str = "key-secret";
/// The time-out of a call to the store.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The time between two attempts to read the secret from the store.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The time after which the secret in the store is compared again.
const COMPARE_INTERVAL: Duration = Duration::from_secs(60);

static FUNCTION: LazyLock<ServerFunction> =
    LazyLock::new(|| ServerFunction::new("key_secret", include_str!("key_secret.lua")));

/// The reason why a file of a key secret cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeySecretError {
    /// The file cannot be read or written.
    #[error("{path}: {error}", path = path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The I/O error.
        error: io::Error,
    },
    /// The file has too few characters for a secret.
    #[error("{path}: a key secret needs at least {} characters; create one with `openssl rand -hex 32`", Secret::MIN_LENGTH, path = .0.display())]
    Short(PathBuf),
}

/// Reads the secret of the hashes in keys from a file.
///
/// ```
/// use tollgate_server::config::read_key_secret;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("secret");
/// std::fs::write(&path, "c9f0f895fb98ab9159f51fd0297e236d\n")?;
/// assert!(read_key_secret(&path).is_ok());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn read_key_secret(path: &Path) -> Result<KeySecret, KeySecretError> {
    let file = |error| KeySecretError::File { path: path.to_owned(), error };
    let text = fs::read_to_string(path).map_err(file)?;
    match text.trim() {
        text if text.len() < Secret::MIN_LENGTH => Err(KeySecretError::Short(path.to_owned())),
        text => Ok(derived(text)),
    }
}

/// Returns the secret that a text stands for, however long it is.
fn derived(text: &str) -> KeySecret {
    let digest = Sha256::digest(text.as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    KeySecret::new(bytes)
}

/// The secret of a server, and where it is shared.
#[derive(Clone, Debug)]
pub(crate) struct ServerKeySecret {
    /// The text of the secret, or the one that this server offers to the others.
    text: Option<Secret>,
    secret: KeySecret,
    /// The store that has the secret, if several servers share it.
    client: Option<RedisClient>,
    /// Whether the secret is the one in the store.
    is_shared: bool,
}

/// Finds the secret of a server, and creates it at the first start.
pub(crate) async fn open(config: &Config, store: &AnyStore) -> Result<ServerKeySecret, StartError> {
    let failed = |error: &dyn std::fmt::Display| StartError::KeySecret(error.to_string());
    let random = || Secret::random().map_err(|error| failed(&error));
    let own = |text: Secret, client| {
        let secret = derived(text.reveal());
        ServerKeySecret { text: Some(text), secret, client, is_shared: false }
    };
    if let Some(secret) = config.key_secret.clone() {
        return Ok(ServerKeySecret { text: None, secret, client: None, is_shared: true });
    }
    if let AnyStore::Redis(shared) = store {
        let mut found = own(random()?, Some(shared.client().clone()));
        match found.compare().await {
            Ok(_) => found.is_shared = true,
            Err(error) => tracing::warn!(
                %error,
                "cannot read the key secret from the store; until then keys with secrets are \
                 counted by this server alone"
            ),
        }
        return Ok(found);
    }
    let Some(folder) = config.data.clone() else { return Ok(own(random()?, None)) };
    let opened = tokio::task::spawn_blocking(move || open_or_create(&folder)).await;
    let secret = opened.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
    Ok(ServerKeySecret { text: None, secret, client: None, is_shared: true })
}

fn open_or_create(folder: &Path) -> Result<KeySecret, KeySecretError> {
    let path = folder.join(FILE);
    if !path.exists() {
        let created = disk::create_private_folder(folder)
            .and_then(|()| Secret::random())
            .and_then(|secret| disk::write_private(&path, secret.reveal().as_bytes()));
        created.map_err(|error| KeySecretError::File { path: path.clone(), error })?;
    }
    read_key_secret(&path)
}

impl ServerKeySecret {
    /// Returns the secret.
    pub(crate) fn secret(&self) -> KeySecret {
        self.secret.clone()
    }

    /// Adopts the secret in the store, or puts this one there. Returns whether it changed.
    async fn compare(&mut self) -> Result<bool, tollgate::StoreError> {
        let (Some(client), Some(own)) = (&self.client, &self.text) else { return Ok(false) };
        let key = format!("{}:{{{TAG}}}", client.prefix());
        let (keys, args) = ([key.as_bytes()], [own.reveal().as_bytes()]);
        let reply = client.call(&FUNCTION, TAG.as_bytes(), &keys, &args, TIMEOUT).await?;
        let stored = match reply {
            ServerReply::Bytes(stored) => String::from_utf8(stored).ok(),
            _ => None,
        };
        let stored = stored.and_then(|stored| Secret::new(stored).ok()).ok_or_else(|| {
            tollgate::StoreError::new(format!("the key secret is damaged: delete the key {key}"))
        })?;
        let is_other = stored.reveal() != own.reveal();
        self.secret = derived(stored.reveal());
        self.text = Some(stored);
        Ok(is_other)
    }

    /// Compares the secret with the one in the store until the server stops.
    pub(crate) async fn follow(mut self, limiter: AnyLimiter, drain: Drain) {
        if self.client.is_none() {
            return;
        }
        let adopt = async {
            loop {
                let pause = if self.is_shared { COMPARE_INTERVAL } else { RETRY_INTERVAL };
                background::panic_point(BackgroundWorker::KeySecret);
                tokio::time::sleep(pause).await;
                let Ok(changed) = self.compare().await else { continue };
                if changed {
                    tracing::warn!(
                        "adopted the key secret in the store: keys with secrets are counted anew"
                    );
                    limiter.set_key_secret(self.secret());
                }
                self.is_shared = true;
            }
        };
        tokio::select! {
            () = adopt => {}
            () = drain.closing() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Later versions must derive the same secret, or every key with a hash would be counted anew.
    #[test]
    fn the_first_format_of_the_key_secret_is_read() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec/formats/key-secret");
        let bytes = [
            0xcb, 0xa8, 0xa0, 0xb5, 0x85, 0x06, 0x1a, 0xc8, 0x75, 0xbb, 0xe9, 0x6e, 0xbf, 0x7b,
            0xf2, 0xbe,
        ];
        assert_eq!(read_key_secret(Path::new(path)).unwrap(), KeySecret::new(bytes));
    }

    #[test]
    fn the_secret_in_the_data_folder_is_private_and_reused() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let created = open_or_create(&data).unwrap();
        assert_eq!(open_or_create(&data).unwrap(), created);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(data.join(FILE)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        fs::write(data.join(FILE), "short").unwrap();
        assert!(open_or_create(&data).unwrap_err().to_string().contains("at least 16"));
    }
}
