//! Finds a master through its sentinels.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::Value;

use super::connector::{Connector, query_once};
use crate::error::CallError;
use crate::options::Address;

/// The sentinels of a master.
pub(super) struct Sentinels {
    pub(super) addresses: Vec<Address>,
    pub(super) master: String,
    pub(super) connector: Connector,
    pub(super) next_sentinel: AtomicUsize,
}

impl Sentinels {
    /// Returns whether the master has moved away from this address. One sentinel is asked, each in
    /// turn; the others only confirm.
    pub(super) async fn names_other_master(&self, known: &Address) -> bool {
        let next_sentinel = self.next_sentinel.fetch_add(1, Ordering::Relaxed);
        let sentinel = &self.addresses[next_sentinel % self.addresses.len()];
        let differs = |named: Result<Address, CallError>| named.is_ok_and(|named| named != *known);
        differs(self.query(sentinel, &self.master_command()).await) && differs(self.master().await)
    }

    fn master_command(&self) -> redis::Cmd {
        let mut command = redis::cmd("SENTINEL");
        command.arg("get-master-addr-by-name").arg(&self.master);
        command
    }

    /// Returns the address that most of the answering sentinels name. All are asked at once, and
    /// the result does not wait for a dead one when the others agree.
    pub(super) async fn master(&self) -> Result<Address, CallError> {
        let command = self.master_command();
        let mut replies: FuturesUnordered<_> =
            self.addresses.iter().map(|sentinel| self.query(sentinel, &command)).collect();
        let mut votes = Votes::new(self.addresses.len());
        let mut error = None;
        while let Some(answer) = replies.next().await {
            match answer {
                Ok(address) => {
                    if votes.add(address) {
                        break;
                    }
                }
                Err(reason) => error = Some(reason),
            }
        }
        let no_sentinels = || CallError::unreachable(&self.name(), "there are no sentinels");
        votes.winner().ok_or_else(|| error.unwrap_or_else(no_sentinels))
    }

    async fn query(&self, sentinel: &Address, command: &redis::Cmd) -> Result<Address, CallError> {
        let answer = query_once(&self.connector, sentinel, command).await?;
        read(&answer).ok_or_else(|| {
            let reason = format!("the sentinel knows no master called {:?}", self.master);
            CallError::unreachable(&sentinel.to_string().into(), reason)
        })
    }

    /// Returns the name of the master in messages.
    pub(super) fn name(&self) -> Arc<str> {
        format!("the master {:?}", self.master).into()
    }
}

/// Reads the reply of a sentinel: host and port.
pub(super) fn read(answer: &Value) -> Option<Address> {
    let Value::Array(parts) = answer else { return None };
    let [Value::BulkString(host), Value::BulkString(port)] = &parts[..] else { return None };
    let (host, port) = (std::str::from_utf8(host).ok()?, std::str::from_utf8(port).ok()?);
    Some(Address::tcp(host, port.parse().ok()?))
}

/// Counts how often each address is named.
struct Votes {
    voters: usize,
    named: Vec<(Address, usize)>,
}

impl Votes {
    fn new(voters: usize) -> Votes {
        Votes { voters, named: Vec::new() }
    }

    /// Counts a vote, and returns whether the address has a majority.
    fn add(&mut self, address: Address) -> bool {
        let at = self.named.iter().position(|(named, _)| *named == address).unwrap_or_else(|| {
            self.named.push((address, 0));
            self.named.len() - 1
        });
        self.named[at].1 += 1;
        self.named[at].1 * 2 > self.voters
    }

    fn winner(self) -> Option<Address> {
        self.named.into_iter().max_by_key(|(_, votes)| *votes).map(|(address, _)| address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_majority_names_the_master() {
        let (old, new) = (Address::tcp("old", 1), Address::tcp("new", 2));
        let mut votes = Votes::new(3);
        assert!(!votes.add(old.clone()));
        assert!(!votes.add(new.clone()));
        assert!(votes.add(new.clone()));
        assert_eq!(votes.winner(), Some(new));
        assert_eq!(Votes::new(3).winner(), None);
        let mut lone = Votes::new(3);
        assert!(!lone.add(old.clone()));
        assert_eq!(lone.winner(), Some(old));
    }

    #[test]
    fn replies_name_host_and_port() {
        let part = |text: &str| Value::BulkString(text.into());
        let answer = Value::Array(vec![part("10.0.0.1"), part("6379")]);
        assert_eq!(read(&answer).unwrap().to_string(), "10.0.0.1:6379");
        assert_eq!(read(&Value::Nil), None);
        assert_eq!(read(&Value::Array(vec![part("a"), part("b")])), None);
    }
}
