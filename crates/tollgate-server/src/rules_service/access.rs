//! Who may do what: names and their tokens.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::disk;
use crate::secret::{Secret, WeakSecret};

/// The file of the tokens, in the folder of a service.
const FILE: &str = "tokens";

/// What a token is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// Reading and changing.
    Write,
    /// Reading.
    Read,
    /// Reading and changing, on behalf of whom the header `x-tollgate-user` names: for a proxy
    /// that knows who is behind it.
    Proxy,
}

/// Names and their tokens.
///
/// Written one a line, or with commas in between, as `name:token` or `name:token:role`. Roles are
/// `write` (unless given), `read` and `proxy`.
///
/// ```
/// use tollgate_server::rules_service::Tokens;
/// let tokens: Tokens = "ann:correct-horse-battery\nlimiters:staple-0123456789:read".parse()?;
/// assert!("ann:secret".parse::<Tokens>().is_err(), "could be guessed");
/// # Ok::<(), tollgate_server::rules_service::TokensError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tokens {
    tokens: Vec<Token>,
}

#[derive(Clone, Debug)]
struct Token {
    name: String,
    secret: Secret,
    role: Role,
}

/// What is wrong with tokens.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokensError {
    /// The file cannot be read or written.
    #[error("{path}: {error}", path = path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A line is wrong. It is not shown: it has a secret in it.
    #[error("token {number}: {why}")]
    Line {
        /// Counted from 1.
        number: usize,
        /// What is wrong.
        why: String,
    },
    /// There are none.
    #[error("no tokens; write one a line, as name:token")]
    None,
}

impl Tokens {
    /// Reads a file of tokens.
    pub fn read(path: &Path) -> Result<Tokens, TokensError> {
        let file = |error| TokensError::File { path: path.to_owned(), error };
        warn_if_others_can_read(path);
        fs::read_to_string(path).map_err(file)?.parse()
    }

    /// The tokens of a service's folder. If there are none, two are made: one to write and one to
    /// read; then their file comes along.
    pub(super) fn of_folder(folder: &Path) -> Result<(Tokens, Option<PathBuf>), TokensError> {
        let path = folder.join(FILE);
        if path.exists() {
            return Ok((Tokens::read(&path)?, None));
        }
        let made = || -> io::Result<Tokens> {
            let make = |name: &str, role| {
                Ok::<_, io::Error>(Token { name: name.into(), secret: Secret::random()?, role })
            };
            let tokens = vec![make("admin", Role::Write)?, make("limiter", Role::Read)?];
            let [write, read] = [&tokens[0], &tokens[1]].map(|token| token.secret.reveal());
            let text = format!(
                "# name:token[:role], one a line; roles: write (unless given), read, proxy\n\
                 admin:{write}\nlimiter:{read}:read\n"
            );
            disk::write_private(&path, text.as_bytes())?;
            Ok(Tokens { tokens })
        };
        match made() {
            Ok(tokens) => Ok((tokens, Some(path))),
            Err(error) => Err(TokensError::File { path, error }),
        }
    }

    /// A token with this role, for a caller in the same process.
    pub fn secret_for(&self, role: Role) -> Option<&Secret> {
        self.tokens.iter().find(|token| token.role == role).map(|token| &token.secret)
    }

    /// Whose token a header `Authorization: Bearer …` brings.
    pub(crate) fn owner_in(&self, headers: &HeaderMap) -> Option<(&str, Role)> {
        let value = headers.get(AUTHORIZATION)?.as_bytes();
        let (scheme, token) = value.split_at_checked(7)?;
        let token = scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())?;
        self.owner(token)
    }

    /// Whose token this is. Looks at all of them, so that the time it takes tells nothing.
    pub(super) fn owner(&self, presented: &[u8]) -> Option<(&str, Role)> {
        let mut owner = None;
        for token in &self.tokens {
            if token.secret.is(presented) {
                owner = Some((token.name.as_str(), token.role));
            }
        }
        owner
    }
}

impl std::str::FromStr for Tokens {
    type Err = TokensError;

    fn from_str(text: &str) -> Result<Tokens, TokensError> {
        let mut tokens: Vec<Token> = Vec::new();
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        let written = lines.flat_map(|line| line.split(',')).map(str::trim);
        for (number, one) in (1..).zip(written.filter(|one| !one.is_empty())) {
            let token = token(one).map_err(|why| TokensError::Line { number, why })?;
            if tokens.iter().any(|known| known.name == token.name) {
                let why = format!("`{}` has one already", token.name);
                return Err(TokensError::Line { number, why });
            }
            tokens.push(token);
        }
        if tokens.is_empty() { Err(TokensError::None) } else { Ok(Tokens { tokens }) }
    }
}

fn token(text: &str) -> Result<Token, String> {
    let mut parts = text.splitn(3, ':');
    let (name, secret) = match (parts.next(), parts.next()) {
        (Some(name), Some(secret)) if is_name(name) => (name.to_owned(), secret),
        _ => return Err("write it as name:token".into()),
    };
    let role = match parts.next() {
        None | Some("write") => Role::Write,
        Some("read") => Role::Read,
        Some("proxy") => Role::Proxy,
        Some(_) => return Err("its role is none of write, read, proxy".into()),
    };
    let secret = Secret::new(secret).map_err(|error: WeakSecret| error.to_string())?;
    Ok(Token { name, secret, role })
}

/// Names appear in the audit.
pub(super) fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._@+".contains(c);
    !name.is_empty() && name.len() <= 128 && name.chars().all(fits)
}

fn warn_if_others_can_read(path: &Path) {
    #[cfg(unix)]
    if let Ok(metadata) = fs::metadata(path) {
        use std::os::unix::fs::PermissionsExt;
        if metadata.permissions().mode() & 0o077 != 0 {
            let path = path.display();
            tracing::warn!(%path, "others can read the tokens; chmod 600 would keep them out");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_made_once_and_kept_private() {
        let folder = tempfile::tempdir().unwrap();
        let (made, path) = Tokens::of_folder(folder.path()).unwrap();
        let path = path.unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        let (again, none) = Tokens::of_folder(folder.path()).unwrap();
        assert_eq!(none, None);
        for role in [Role::Write, Role::Read] {
            let secret = made.secret_for(role).unwrap().reveal();
            assert_eq!(again.owner(secret.as_bytes()).unwrap().1, role);
        }
        assert_eq!(again.owner(b""), None);
        assert_eq!(again.owner(b"admin"), None);
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said_without_showing_it() {
        for (text, says) in [
            ("ann", "name:token"),
            (":0123456789abcdef", "name:token"),
            ("ann:hunter2", "at least 16"),
            ("ann:0123456789abcdef:root", "role"),
            ("ann:hunter2 hunter2 hunter2", "letters"),
            ("ann:0123456789abcdef\nann:0123456789abcdef", "already"),
            ("# nobody\n", "no tokens"),
        ] {
            let error = text.parse::<Tokens>().unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
            assert!(!error.contains("hunter2") && !error.contains("0123"), "{error}");
        }
    }
}
