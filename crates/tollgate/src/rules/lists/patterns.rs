//! Texts, numbers, patterns and networks, with something attached to each: what a value is looked
//! up in, in a list and in the matcher's index.

use std::hash::Hash;
use std::net::IpAddr;

use foldhash::HashMap;
use ipnet::IpNet;
use smallvec::SmallVec;

use super::super::Value;
use super::super::expr::Spelling;
use super::super::fault::Fault;
use super::super::glob::{self, Globs};
use super::networks::Networks;

/// Whatever can be said about a value by writing it down.
#[derive(Clone, Debug)]
pub(crate) struct Patterns<T> {
    texts: HashMap<Box<str>, SmallVec<[T; 1]>>,
    numbers: HashMap<i64, SmallVec<[T; 1]>>,
    globs: Globs<T>,
    networks: Networks<T>,
}

/// What an entry is taken for.
pub(crate) enum Entry {
    Network(IpNet),
    Glob,
    Text,
}

impl Entry {
    /// Reads an entry of a list.
    pub(crate) fn read(text: &str) -> Result<Entry, Fault> {
        if text.trim().is_empty() {
            return Err(Fault::new(0..text.len(), "an entry is an address, a network or a name"));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Entry::Network(address.to_canonical().into()));
        }
        let address = text.split_once('/').map(|(address, bits)| (address.parse::<IpAddr>(), bits));
        if let Some((Ok(address), bits)) = address {
            let longest = if address.is_ipv4() { 32 } else { 128 };
            return text.parse().map(Entry::Network).map_err(|_| {
                let start = text.len() - bits.len();
                Fault::new(
                    start..text.len(),
                    format!("a network of {address} has 0 to {longest} bits"),
                )
            });
        }
        Ok(if glob::is_pattern(text) { Entry::Glob } else { Entry::Text })
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
        match Entry::read(entry)? {
            Entry::Network(network) => self.insert_network(network, attached),
            Entry::Glob => self.insert_glob(entry, attached),
            Entry::Text => self.insert_text(entry, attached),
        }
        Ok(())
    }

    /// Adds a text that stands for nothing but itself.
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

    /// What is attached to everything that describes a value; the same twice if two do.
    pub(crate) fn find(&self, value: &Value<'_>, found: &mut impl FnMut(&T)) {
        self.each(value, &mut |attached| {
            found(attached);
            false
        });
    }

    /// Whether anything describes a value.
    pub(crate) fn any(&self, value: &Value<'_>) -> bool {
        self.each(value, &mut |_| true)
    }

    /// Calls `enough` with what is found until it says so.
    fn each(&self, value: &Value<'_>, enough: &mut impl FnMut(&T) -> bool) -> bool {
        let spelling = Spelling::of(value);
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
