//! The slots of a cluster and their owners.

use redis::Value;

use crate::options::Address;

/// The number of slots of a cluster.
pub(crate) const SLOTS: u16 = 16_384;

/// Returns the slot of a tag, the text between the braces of a key.
pub(crate) fn slot(tag: &[u8]) -> u16 {
    crc16::State::<crc16::XMODEM>::calculate(tag) % SLOTS
}

/// A range of slots, and the master that owns them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SlotRange {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) master: Address,
}

/// Reads the reply to CLUSTER SLOTS of the server at `from`. A server that does not know its own
/// host leaves it empty.
pub(super) fn ranges(reply: &Value, from: &Address) -> Vec<SlotRange> {
    let Value::Array(items) = reply else { return Vec::new() };
    items.iter().filter_map(|item| range(item, from)).collect()
}

fn range(item: &Value, from: &Address) -> Option<SlotRange> {
    let Value::Array(parts) = item else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = &parts[..] else {
        return None;
    };
    let (first, last) = (u16::try_from(*first).ok()?, u16::try_from(*last).ok()?);
    let [host, Value::Int(port), ..] = &master[..] else { return None };
    let host = match host {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok()?,
        Value::SimpleString(text) => text,
        Value::Nil => "",
        _ => return None,
    };
    let host = match (host, from) {
        // The cluster does not know the host name of this server.
        ("?", _) => return None,
        ("" | "0.0.0.0" | "::", Address::Tcp { host, .. }) => host,
        ("", Address::Unix(_)) => return None,
        (host, _) => host,
    };
    let master = Address::tcp(host, u16::try_from(*port).ok()?);
    (first <= last && last < SLOTS).then_some(SlotRange { first, last, master })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // As `CLUSTER KEYSLOT` answers.
        for (tag, expected) in
            [("123456789", 12_739), ("user1000", 3_443), ("foo", 12_182), ("", 0)]
        {
            assert_eq!(slot(tag.as_bytes()), expected, "{tag}");
        }
    }

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    fn item(first: i64, last: i64, host: Value, port: i64) -> Value {
        let node = Value::Array(vec![host, Value::Int(port), text("id"), Value::Array(vec![])]);
        let replica = Value::Array(vec![text("10.0.0.9"), Value::Int(1), text("id")]);
        Value::Array(vec![Value::Int(first), Value::Int(last), node, replica])
    }

    #[test]
    fn ranges_name_their_master() {
        let reply = Value::Array(vec![
            item(0, 5460, text("10.0.0.1"), 7001),
            item(5461, 10922, Value::Nil, 7002),
            item(10923, 16383, text(""), 7003),
        ]);
        let from = Address::tcp("seed", 7000);
        let read = ranges(&reply, &from);
        let names: Vec<String> = read.iter().map(|range| range.master.to_string()).collect();
        assert_eq!(names, ["10.0.0.1:7001", "seed:7002", "seed:7003"]);
        assert_eq!((read[2].first, read[2].last), (10923, 16383));
    }

    #[test]
    fn invalid_ranges_are_ignored() {
        let from = Address::tcp("seed", 7000);
        let reply = Value::Array(vec![
            Value::Int(5),
            item(0, 16384, text("a"), 1),
            item(7, 6, text("a"), 1),
            item(-1, 6, text("a"), 1),
            item(0, 6, text("?"), 1),
            item(0, 6, text("a"), 65_536),
            Value::Array(vec![Value::Int(1)]),
        ]);
        assert_eq!(ranges(&reply, &from), []);
        assert_eq!(ranges(&Value::Nil, &from), []);
    }
}
