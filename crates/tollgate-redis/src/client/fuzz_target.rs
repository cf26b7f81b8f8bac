//! The checks of the replies that the client reads itself, part of the fuzz target of replies.

use redis::Value;

use super::command_reply::CommandReply;
use super::connector::server_time;
use super::sentinel;
use super::server_reply::ServerReply;
use super::slots::{SLOTS, ranges};
use crate::options::Address;

/// Reads a value as the reply of a server, of a cluster and of a sentinel.
pub(crate) fn check_reply(value: &Value) {
    let from = Address::tcp("seed", 7_000);
    for range in ranges(value, &from) {
        assert!(range.first <= range.last && range.last < SLOTS, "{range:?}");
    }
    let _ = (sentinel::read(value), server_time(value));
    let reply = CommandReply::from_value(value.clone());
    match (&reply, value) {
        (CommandReply::Done(done), value) => assert_eq!(done, value),
        (reply, Value::ServerError(_)) => assert!(!reply.text().is_empty()),
        other => panic!("only an error is no result: {other:?}"),
    }
    if let CommandReply::Moved(address) | CommandReply::Ask(address) = &reply {
        let _ = Address::from_redirect(address, &from);
    }
    let list = |value: &Value| match value {
        Value::Array(values) => Some(values.len()),
        _ => None,
    };
    match ServerReply::from(value.clone()) {
        ServerReply::List(replies) => assert_eq!(Some(replies.len()), list(value)),
        _ => assert_eq!(list(value), None),
    }
}
