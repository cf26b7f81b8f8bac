//! Named sets: addresses and networks, names, patterns. Data, so they change without a reload.

use super::Value;
use super::fault::Fault;

/// The lists of a domain, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lists {
    lists: Vec<(Box<str>, List)>,
}

/// A set of addresses, names and patterns.
#[derive(Clone, Debug, Default)]
pub(crate) struct List {
    exact: std::collections::HashSet<Box<str>>,
}

/// A list's number; it stays the same when its entries change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ListId(pub(crate) u32);

impl List {
    /// Reads entries; the number of the one that is wrong comes with what is wrong with it.
    pub(crate) fn new<'e>(entries: impl IntoIterator<Item = &'e str>) -> Result<List, (usize, Fault)> {
        Ok(List { exact: entries.into_iter().map(Into::into).collect() })
    }

    pub(crate) fn contains(&self, value: &Value<'_>) -> bool {
        self.exact.contains(&*value.text())
    }
}

impl Lists {
    pub(crate) fn add(&mut self, name: &str, list: List) -> ListId {
        self.lists.push((name.into(), list));
        ListId(self.lists.len() as u32 - 1)
    }

    pub(crate) fn named(&self, name: &str) -> Option<ListId> {
        let index = self.lists.iter().position(|(known, _)| &**known == name)?;
        Some(ListId(index as u32))
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.lists.iter().map(|(name, _)| &**name)
    }

    /// Replaces a list's entries.
    pub(crate) fn set(&mut self, id: ListId, list: List) {
        if let Some((_, known)) = self.lists.get_mut(id.0 as usize) {
            *known = list;
        }
    }

    pub(crate) fn contains(&self, id: ListId, value: &Value<'_>) -> bool {
        self.lists.get(id.0 as usize).is_some_and(|(_, list)| list.contains(value))
    }
}
