//! Access tokens: names, secrets and roles.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hyper::header::{AUTHORIZATION, HeaderMap};

use crate::disk;
use crate::secret::{Secret, WeakSecret};

/// The name of the token file in the data folder.
const FILE: &str = "tokens";

/// The permissions of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// Permission to read and to change.
    Write,
    /// Permission to read: rules, counters, the busiest keys, the live tail.
    Read,
    /// Permission to ask for decisions, and to read the counters they are about.
    Decide,
    /// Permission to read and to change on behalf of the user in the header `x-tollgate-user`.
    ///
    /// Meant for a proxy that authenticates users itself.
    Proxy,
}

/// The right that a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// To ask for a decision, which charges counters.
    Decide,
    /// To read counters.
    Peek,
    /// To read through the admin API.
    Read,
    /// To change counters, rules and data.
    Change,
}

impl Permission {
    /// Returns the name of the role with the fewest rights that has this one.
    pub(crate) fn role(self) -> &'static str {
        match self {
            Permission::Decide | Permission::Peek => Role::Decide.name(),
            Permission::Read => Role::Read.name(),
            Permission::Change => Role::Write.name(),
        }
    }
}

impl Role {
    /// Returns the name of the role in token files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Role::Write => "write",
            Role::Read => "read",
            Role::Decide => "decide",
            Role::Proxy => "proxy",
        }
    }

    /// Whether a token of this role has a right.
    pub(crate) fn allows(self, permission: Permission) -> bool {
        match self {
            Role::Write | Role::Proxy => true,
            Role::Decide => matches!(permission, Permission::Decide | Permission::Peek),
            Role::Read => matches!(permission, Permission::Read | Permission::Peek),
        }
    }
}

/// A list of named tokens.
///
/// The text form has one token per line, or commas between tokens. A token is written as
/// `name:token` or `name:token:role`. Roles are `write`, `read`, `decide` and `proxy`. Without a
/// role, a token of the admin API has `write`, and one for decisions has `decide`.
///
/// ```
/// use tollgate_server::access::Tokens;
/// let tokens: Tokens = "ann:correct-horse-battery\nlimiters:staple-0123456789:read".parse()?;
/// assert!("ann:secret".parse::<Tokens>().is_err(), "too short");
/// # Ok::<(), tollgate_server::access::TokensError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tokens {
    tokens: Vec<Token>,
    /// The role of tokens without one.
    default_role: Role,
    /// The file that they were read from.
    path: Option<PathBuf>,
}

#[derive(Clone, Debug)]
struct Token {
    name: String,
    secret: Secret,
    role: Option<Role>,
}

/// The reason why tokens cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokensError {
    /// The file cannot be read or written.
    #[error("{path}: {error}", path = path.display())]
    File {
        /// The path of the token file.
        path: PathBuf,
        /// The I/O error.
        error: io::Error,
    },
    /// A token is malformed. The message does not show it, because it contains a secret.
    #[error("token {number}: {reason}")]
    Line {
        /// The position of the token in the list, counted from 1.
        number: usize,
        /// The mistake.
        reason: String,
    },
    /// The system cannot provide random numbers for a new token.
    #[error("cannot create a token: {0}")]
    Random(io::Error),
    /// The list contains no token.
    #[error("no tokens; write one per line, as name:token")]
    None,
}

impl Tokens {
    /// Reads a file of tokens.
    pub fn read(path: &Path) -> Result<Tokens, TokensError> {
        let file = |error| TokensError::File { path: path.to_owned(), error };
        warn_if_others_can_read(path);
        let tokens: Tokens = fs::read_to_string(path).map_err(file)?.parse()?;
        Ok(Tokens { path: Some(path.to_owned()), ..tokens })
    }

    /// Reads the file of the tokens again; `None` if they are from no file.
    pub(crate) fn read_again(&self) -> Option<Result<Tokens, TokensError>> {
        let again = Tokens::read(self.path.as_deref()?);
        Some(again.map(|tokens| Tokens { default_role: self.default_role, ..tokens }))
    }

    /// Returns the path of the file, for messages.
    pub(crate) fn shown_path(&self) -> String {
        self.path.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
    }

    /// Returns tokens for decisions: those without a role may only decide.
    pub(crate) fn for_decisions(self) -> Tokens {
        Tokens { default_role: Role::Decide, ..self }
    }

    fn of_admin(tokens: Vec<Token>) -> Tokens {
        Tokens { tokens, default_role: Role::Write, path: None }
    }

    /// Reads the token file of a data folder, or creates it with one `write` and one `read` token.
    ///
    /// Also returns the path of the file if it was created.
    pub(crate) fn open_or_create(folder: &Path) -> Result<(Tokens, Option<PathBuf>), TokensError> {
        let path = folder.join(FILE);
        if path.exists() {
            return Ok((Tokens::read(&path)?, None));
        }
        let made = || -> io::Result<Tokens> {
            let make = |name: &str, role| {
                Ok::<_, io::Error>(Token {
                    name: name.into(),
                    secret: Secret::random()?,
                    role: Some(role),
                })
            };
            let tokens = vec![make("admin", Role::Write)?, make("limiter", Role::Read)?];
            let [write, read] = [&tokens[0], &tokens[1]].map(|token| token.secret.reveal());
            let text = format!(
                "# name:token[:role], one per line; roles: write (default), read, decide, proxy\n\
                 admin:{write}\nlimiter:{read}:read\n"
            );
            disk::write_private(&path, text.as_bytes())?;
            Ok(Tokens { path: Some(path.clone()), ..Tokens::of_admin(tokens) })
        };
        match made() {
            Ok(tokens) => Ok((tokens, Some(path))),
            Err(error) => Err(TokensError::File { path, error }),
        }
    }

    /// Creates one `write` token that is valid until the process ends.
    pub(crate) fn random() -> Result<Tokens, TokensError> {
        let secret = Secret::random().map_err(TokensError::Random)?;
        let role = Some(Role::Write);
        Ok(Tokens::of_admin(vec![Token { name: "admin".into(), secret, role }]))
    }

    /// Returns the first token with this role, for a caller in the same process.
    pub fn secret_for(&self, role: Role) -> Option<&Secret> {
        let has_role = |token: &&Token| token.role.unwrap_or(self.default_role) == role;
        self.tokens.iter().find(has_role).map(|token| &token.secret)
    }

    /// Returns the name and role of the token in the header `Authorization: Bearer …`.
    pub(crate) fn authenticate_headers(&self, headers: &HeaderMap) -> Option<(&str, Role)> {
        self.authenticate(bearer(headers.get(AUTHORIZATION)?.as_bytes())?)
    }

    /// Returns the name and role of a token. Compares all tokens, so that the time reveals nothing.
    pub(crate) fn authenticate(&self, presented: &[u8]) -> Option<(&str, Role)> {
        let mut owner = None;
        for token in &self.tokens {
            if token.secret.matches(presented) {
                owner = Some((token.name.as_str(), token.role.unwrap_or(self.default_role)));
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
            let token = token(one).map_err(|reason| TokensError::Line { number, reason })?;
            if tokens.iter().any(|known| known.name == token.name) {
                let reason = format!("`{}` already has a token; choose another name", token.name);
                return Err(TokensError::Line { number, reason });
            }
            tokens.push(token);
        }
        if tokens.is_empty() { Err(TokensError::None) } else { Ok(Tokens::of_admin(tokens)) }
    }
}

fn token(text: &str) -> Result<Token, String> {
    let mut parts = text.splitn(3, ':');
    let (name, secret) = match (parts.next(), parts.next()) {
        (Some(name), Some(secret)) if is_name(name) => (name.to_owned(), secret),
        _ => return Err("write it as name:token".into()),
    };
    let role = match parts.next() {
        None => None,
        Some("write") => Some(Role::Write),
        Some("read") => Some(Role::Read),
        Some("decide") => Some(Role::Decide),
        Some("proxy") => Some(Role::Proxy),
        Some(_) => return Err("unknown role; use write, read, decide or proxy".into()),
    };
    let secret = Secret::new(secret).map_err(|error: WeakSecret| error.to_string())?;
    Ok(Token { name, secret, role })
}

/// Returns the token in the value of an `Authorization` header.
pub(crate) fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// Returns whether a name is safe to show in the audit log.
pub(crate) fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._@+".contains(c);
    !name.is_empty() && name.len() <= 128 && name.chars().all(fits)
}

fn warn_if_others_can_read(path: &Path) {
    #[cfg(unix)]
    if let Ok(metadata) = fs::metadata(path) {
        use std::os::unix::fs::PermissionsExt;
        if metadata.permissions().mode() & 0o077 != 0 {
            let path = path.display();
            tracing::warn!(%path, "other users can read the token file; run chmod 600 on it");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_created_once_and_are_private() {
        let folder = tempfile::tempdir().unwrap();
        let (created, path) = Tokens::open_or_create(folder.path()).unwrap();
        let path = path.unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        let (again, none) = Tokens::open_or_create(folder.path()).unwrap();
        assert_eq!(none, None);
        for role in [Role::Write, Role::Read] {
            let secret = created.secret_for(role).unwrap().reveal();
            assert_eq!(again.authenticate(secret.as_bytes()).unwrap().1, role);
        }
        assert_eq!(again.authenticate(b""), None);
        assert_eq!(again.authenticate(b"admin"), None);
    }

    /// Later versions must read this file.
    #[test]
    fn the_first_format_of_the_token_file_is_read() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec/formats/tokens");
        let tokens = Tokens::read(Path::new(path)).unwrap();
        let write = tokens.authenticate(b"6d0f7b1c2e3a4958a7b6c5d4e3f20110");
        assert_eq!(write, Some(("admin", Role::Write)));
        let read = tokens.authenticate(b"0102030405060708090a0b0c0d0e0f10");
        assert_eq!(read, Some(("limiter", Role::Read)));
    }

    #[test]
    fn an_error_does_not_show_the_secret() {
        for (text, expected) in [
            ("ann", "name:token"),
            (":0123456789abcdef", "name:token"),
            ("ann:hunter2", "at least 16"),
            ("ann:0123456789abcdef:root", "role"),
            ("ann:hunter2 hunter2 hunter2", "letters"),
            ("ann:0123456789abcdef\nann:0123456789abcdef", "already"),
            ("# empty\n", "no tokens"),
        ] {
            let error = text.parse::<Tokens>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(!error.contains("hunter2") && !error.contains("0123"), "{error}");
        }
    }
}
