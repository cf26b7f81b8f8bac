//! Asks the sentinels who the master is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::Value;

use super::dial::{Dialer, ask};
use crate::options::Address;
use crate::trouble::Trouble;

/// The sentinels of a master.
pub(super) struct Sentinels {
    pub(super) addresses: Vec<Address>,
    pub(super) master: String,
    pub(super) dialer: Dialer,
    pub(super) turn: AtomicUsize,
}

impl Sentinels {
    /// Whether the master is another than this one. Only one of them is asked, each in turn, unless
    /// it says so.
    pub(super) async fn name_another(&self, known: &Address) -> bool {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let sentinel = &self.addresses[turn % self.addresses.len()];
        let differs = |named: Result<Address, Trouble>| named.is_ok_and(|named| named != *known);
        differs(self.ask(sentinel, &self.question()).await) && differs(self.master().await)
    }

    fn question(&self) -> redis::Cmd {
        let mut command = redis::cmd("SENTINEL");
        command.arg("get-master-addr-by-name").arg(&self.master);
        command
    }

    /// Where the master is, according to most of the sentinels that answer. All are asked at once,
    /// and nobody waits for a dead one if the others agree.
    pub(super) async fn master(&self) -> Result<Address, Trouble> {
        let command = self.question();
        let mut asked: FuturesUnordered<_> =
            self.addresses.iter().map(|sentinel| self.ask(sentinel, &command)).collect();
        let mut votes = Votes::new(self.addresses.len());
        let mut trouble = None;
        while let Some(answer) = asked.next().await {
            match answer {
                Ok(address) => {
                    if votes.add(address) {
                        break;
                    }
                }
                Err(why) => trouble = Some(why),
            }
        }
        let nobody = || Trouble::unreachable(&self.name(), "there are no sentinels");
        votes.winner().ok_or_else(|| trouble.unwrap_or_else(nobody))
    }

    async fn ask(&self, sentinel: &Address, command: &redis::Cmd) -> Result<Address, Trouble> {
        let answer = ask(&self.dialer, sentinel, command).await?;
        read(&answer).ok_or_else(|| {
            let why = format!("the sentinel knows no master called {:?}", self.master);
            Trouble::unreachable(&sentinel.to_string().into(), why)
        })
    }

    /// What the master is called in messages.
    pub(super) fn name(&self) -> Arc<str> {
        format!("the master {:?}", self.master).into()
    }
}

/// What a sentinel answers: host and port.
fn read(answer: &Value) -> Option<Address> {
    let Value::Array(parts) = answer else { return None };
    let [Value::BulkString(host), Value::BulkString(port)] = &parts[..] else { return None };
    let (host, port) = (std::str::from_utf8(host).ok()?, std::str::from_utf8(port).ok()?);
    Some(Address::tcp(host, port.parse().ok()?))
}

/// Counts who is named how often.
struct Votes {
    voters: usize,
    named: Vec<(Address, usize)>,
}

impl Votes {
    fn new(voters: usize) -> Votes {
        Votes { voters, named: Vec::new() }
    }

    /// Counts a vote; says whether nothing can change any more.
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
    fn the_majority_says_who_is_master() {
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
    fn answers_name_host_and_port() {
        let part = |text: &str| Value::BulkString(text.into());
        let answer = Value::Array(vec![part("10.0.0.1"), part("6379")]);
        assert_eq!(read(&answer).unwrap().to_string(), "10.0.0.1:6379");
        assert_eq!(read(&Value::Nil), None);
        assert_eq!(read(&Value::Array(vec![part("a"), part("b")])), None);
    }
}
