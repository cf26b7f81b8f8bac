//! The reply of a server to a function call.

use redis::Value;

/// The reply of a server to a function call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerReply {
    /// Nothing: `nil` or `false` in Lua.
    Nil,
    /// A whole number.
    Int(i64),
    /// A text or any other bytes.
    Bytes(Vec<u8>),
    /// A list of replies.
    List(Vec<ServerReply>),
}

impl From<Value> for ServerReply {
    fn from(value: Value) -> ServerReply {
        match value {
            Value::Int(number) => ServerReply::Int(number),
            Value::BulkString(bytes) => ServerReply::Bytes(bytes),
            Value::SimpleString(text) => ServerReply::Bytes(text.into_bytes()),
            Value::Array(values) => {
                ServerReply::List(values.into_iter().map(ServerReply::from).collect())
            }
            _ => ServerReply::Nil,
        }
    }
}
