//! An index of texts, numbers, patterns and networks, each with a value. Lists and the matcher look
//! up attributes in it.

use std::hash::Hash;
use std::net::IpAddr;

use foldhash::HashMap;
use ipnet::IpNet;
use smallvec::SmallVec;

use super::networks::Networks;
use crate::Value;
use crate::compile::expr::Spelling;
use crate::compile::glob::{self, Globs};
use crate::read::fault::Fault;

/// An index of everything an attribute can be compared to, each with a value.
#[derive(Clone, Debug)]
pub(crate) struct Patterns<T> {
    texts: HashMap<Box<str>, SmallVec<[T; 1]>>,
    numbers: HashMap<i64, SmallVec<[T; 1]>>,
    globs: Globs<T>,
    networks: Networks<T>,
}

/// The kind of an entry of a list.
pub(crate) enum ListEntry {
    Network(IpNet),
    Glob,
    Text,
}

impl ListEntry {
    /// Reads an entry of a list.
    pub(crate) fn read(text: &str) -> Result<ListEntry, Fault> {
        if text.trim().is_empty() {
            return Err(Fault::new(0..text.len(), "an entry is an address, a network or a name"));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(ListEntry::Network(address.to_canonical().into()));
        }
        let address = text.split_once('/').map(|(address, bits)| (address.parse::<IpAddr>(), bits));
        if let Some((Ok(address), bits)) = address {
            let longest = if address.is_ipv4() { 32 } else { 128 };
            return text.parse().map(ListEntry::Network).map_err(|_| {
                let start = text.len() - bits.len();
                Fault::new(
                    start..text.len(),
                    format!("a network of {address} has 0 to {longest} bits"),
                )
            });
        }
        Ok(if glob::is_pattern(text) { ListEntry::Glob } else { ListEntry::Text })
    }
}

impl<T> Default for Patterns<T> {
    fn default() -> Self {
        Patterns {
            texts: HashMap::default(),
            numbers: HashMap::default(),
            globs: Globs::default(),
            networks: Networks::default(),
        }
    }
}

impl<T: Clone> Patterns<T> {
    /// Adds an entry as it is written in a list.
    pub(crate) fn insert(&mut self, entry: &str, attached: T) -> Result<(), Fault> {
        match ListEntry::read(entry)? {
            ListEntry::Network(network) => self.insert_network(network, attached),
            ListEntry::Glob => self.insert_glob(entry, attached),
            ListEntry::Text => self.insert_text(entry, attached),
        }
        Ok(())
    }

    /// Adds a text without special characters.
    pub(crate) fn insert_text(&mut self, text: &str, attached: T) {
        add(&mut self.texts, text.into(), attached);
    }

    pub(crate) fn insert_number(&mut self, number: i64, attached: T) {
        add(&mut self.numbers, number, attached);
    }

    /// Adds a pattern with `*`.
    pub(crate) fn insert_glob(&mut self, pattern: &str, attached: T) {
        self.globs.insert(pattern, attached);
    }

    pub(crate) fn insert_network(&mut self, network: IpNet, attached: T) {
        self.networks.insert(network, attached);
    }

    /// Visits the value of every entry that matches; one comes twice if two entries have it.
    pub(crate) fn find(&self, value: &Value<'_>, visit: &mut impl FnMut(&T)) {
        self.each(value, &mut |attached| {
            visit(attached);
            false
        });
    }

    /// Whether any entry matches a value.
    pub(crate) fn any(&self, value: &Value<'_>) -> bool {
        self.each(value, &mut |_| true)
    }

    /// Calls `enough` with the value of each entry that matches until it returns true.
    fn each(&self, value: &Value<'_>, enough: &mut impl FnMut(&T) -> bool) -> bool {
        let spelling = Spelling::from_value(value);
        let text: &str = &spelling;
        if self.texts.get(text).into_iter().flatten().any(&mut *enough) {
            return true;
        }
        if !self.numbers.is_empty()
            && let Some(number) = value.number()
            && self.numbers.get(&number).into_iter().flatten().any(&mut *enough)
        {
            return true;
        }
        if !self.networks.is_empty()
            && let Some(address) = value.ip()
            && self.networks.find(address).any(&mut *enough)
        {
            return true;
        }
        !self.globs.is_empty() && self.globs.find(text).any(enough)
    }
}

fn add<K: Eq + Hash, T>(map: &mut HashMap<K, SmallVec<[T; 1]>>, key: K, attached: T) {
    map.entry(key).or_default().push(attached);
}
