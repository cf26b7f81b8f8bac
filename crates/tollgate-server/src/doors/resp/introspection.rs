//! `INFO` and `COMMAND`: facts about the server and its commands.

use tollgate::MemoryStore;

use super::command::RespCommand;
use super::command_table::{self, COMMANDS, CommandSpec};
use super::reply_buffer::ReplyBuffer;
use crate::server::Context;

/// The version that clients infer the available features from; `COMMAND` lists the real ones.
const REDIS_VERSION: &str = "7.2.0";

/// Replies to `INFO [section ...]`.
pub(super) fn info(context: &Context, command: &RespCommand<'_>, replies: &mut ReplyBuffer) {
    let includes = |section: &str| {
        let everything = ["default", "all", "everything"];
        command.len() == 1
            || (1..command.len()).any(|index| {
                command.is(index, section) || everything.iter().any(|all| command.is(index, all))
            })
    };
    let mut text = String::new();
    if includes("server") {
        text += "# Server\r\n";
        text += &format!("redis_version:{REDIS_VERSION}\r\nredis_mode:standalone\r\n");
        text += &format!("tollgate_version:{}\r\n", env!("CARGO_PKG_VERSION"));
        text += &format!("process_id:{}\r\n\r\n", std::process::id());
    }
    if includes("clients") {
        let count = context.connections.count();
        text += &format!("# Clients\r\nconnected_clients:{count}\r\n\r\n");
    }
    if includes("memory") {
        text += "# Memory\r\n";
        if let Some(bytes) = context.decisions.store().memory().map(MemoryStore::memory) {
            text += &format!("used_memory:{bytes}\r\n");
        }
        text += "\r\n";
    }
    if includes("persistence") {
        text += "# Persistence\r\nloading:0\r\n\r\n";
    }
    if includes("replication") {
        text += "# Replication\r\nrole:master\r\n\r\n";
    }
    if includes("keyspace") {
        text += "# Keyspace\r\n";
        if let Some(keys) = context.decisions.store().memory().map(MemoryStore::len) {
            text += &format!("db0:keys={keys},expires={keys},avg_ttl=0\r\n");
        }
        text += "\r\n";
    }
    replies.text(text.strip_suffix("\r\n").unwrap_or(&text));
}

/// Replies to `COMMAND [COUNT|LIST|INFO name ...|DOCS name ...]`.
pub(super) fn command(command: &RespCommand<'_>, replies: &mut ReplyBuffer) {
    match command.get(1).to_ascii_uppercase().as_slice() {
        b"" if command.len() == 1 => describe(COMMANDS.iter().map(Some), replies),
        b"COUNT" => replies.count(COMMANDS.len() as u64),
        b"LIST" => {
            replies.array(COMMANDS.len());
            COMMANDS.iter().for_each(|spec| replies.text(&spec.name.to_ascii_lowercase()));
        }
        b"INFO" if command.len() == 2 => describe(COMMANDS.iter().map(Some), replies),
        b"INFO" => describe(command.arguments_from(2).map(command_table::find), replies),
        b"DOCS" => {
            let specs: Vec<&CommandSpec> = match command.len() {
                2 => COMMANDS.iter().collect(),
                _ => command.arguments_from(2).filter_map(command_table::find).collect(),
            };
            replies.map(specs.len());
            for spec in specs {
                replies.text(&spec.name.to_ascii_lowercase());
                replies.map(3);
                for (name, value) in
                    [("summary", spec.summary), ("since", "0.1.0"), ("group", "generic")]
                {
                    replies.text(name);
                    replies.text(value);
                }
            }
        }
        _ => unknown_subcommand(command, "COMMAND", replies),
    }
}

fn describe(
    commands: impl ExactSizeIterator<Item = Option<&'static CommandSpec>>,
    replies: &mut ReplyBuffer,
) {
    replies.array(commands.len());
    for spec in commands {
        let Some(spec) = spec else {
            replies.null();
            continue;
        };
        let key = i64::from(spec.keyed);
        replies.array(10);
        replies.text(&spec.name.to_ascii_lowercase());
        replies.integer(spec.arity);
        replies.set(1);
        replies.simple(if spec.keyed { "write" } else { "fast" });
        [key; 3].into_iter().for_each(|position| replies.integer(position));
        // There are no ACL categories, hints, key specifications or subcommands.
        replies.set(0);
        [0; 3].into_iter().for_each(|none| replies.array(none));
    }
}

pub(super) fn unknown_subcommand(command: &RespCommand<'_>, name: &str, replies: &mut ReplyBuffer) {
    let subcommand: String = command.display(1).chars().take(128).collect();
    replies.error(&format!("ERR unknown subcommand '{subcommand}'. See COMMAND DOCS {name}."));
}
