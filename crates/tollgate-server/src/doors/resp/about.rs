//! What the server tells about itself: `INFO` and `COMMAND`.

use tollgate::MemoryStore;

use super::command::Command;
use super::reply::Replies;
use super::table::{self, COMMANDS, Known};
use crate::server::Context;

/// Clients look for it to know what they may send. What of it there is, `COMMAND` lists.
const REDIS_VERSION: &str = "7.2.0";

/// `INFO [section ...]`.
pub(super) fn info(context: &Context, command: &Command<'_>, replies: &mut Replies) {
    let wanted = |section: &str| {
        let everything = ["default", "all", "everything"];
        command.len() == 1
            || (1..command.len()).any(|index| {
                command.is(index, section) || everything.iter().any(|all| command.is(index, all))
            })
    };
    let mut text = String::new();
    if wanted("server") {
        text += "# Server\r\n";
        text += &format!("redis_version:{REDIS_VERSION}\r\nredis_mode:standalone\r\n");
        text += &format!("tollgate_version:{}\r\n", env!("CARGO_PKG_VERSION"));
        text += &format!("process_id:{}\r\n\r\n", std::process::id());
    }
    if wanted("clients") {
        let count = context.connections.count();
        text += &format!("# Clients\r\nconnected_clients:{count}\r\n\r\n");
    }
    if wanted("persistence") {
        text += "# Persistence\r\nloading:0\r\n\r\n";
    }
    if wanted("replication") {
        text += "# Replication\r\nrole:master\r\n\r\n";
    }
    if wanted("keyspace") {
        text += "# Keyspace\r\n";
        if let Some(keys) = context.engine.store().memory().map(MemoryStore::len) {
            text += &format!("db0:keys={keys},expires={keys},avg_ttl=0\r\n");
        }
        text += "\r\n";
    }
    replies.text(text.strip_suffix("\r\n").unwrap_or(&text));
}

/// `COMMAND [COUNT|LIST|INFO name ...|DOCS name ...]`.
pub(super) fn command(command: &Command<'_>, replies: &mut Replies) {
    match command.get(1).to_ascii_uppercase().as_slice() {
        b"" if command.len() == 1 => describe(COMMANDS.iter().map(Some), replies),
        b"COUNT" => replies.count(COMMANDS.len() as u64),
        b"LIST" => {
            replies.array(COMMANDS.len());
            COMMANDS.iter().for_each(|known| replies.text(&known.name.to_ascii_lowercase()));
        }
        b"INFO" if command.len() == 2 => describe(COMMANDS.iter().map(Some), replies),
        b"INFO" => describe(command.from(2).map(table::find), replies),
        b"DOCS" => {
            let named: Vec<&Known> = match command.len() {
                2 => COMMANDS.iter().collect(),
                _ => command.from(2).filter_map(table::find).collect(),
            };
            replies.map(named.len());
            for known in named {
                replies.text(&known.name.to_ascii_lowercase());
                replies.map(3);
                for (name, value) in
                    [("summary", known.summary), ("since", "0.1.0"), ("group", "generic")]
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
    commands: impl ExactSizeIterator<Item = Option<&'static Known>>,
    replies: &mut Replies,
) {
    replies.array(commands.len());
    for known in commands {
        let Some(known) = known else {
            replies.null();
            continue;
        };
        let key = i64::from(known.keyed);
        replies.array(10);
        replies.text(&known.name.to_ascii_lowercase());
        replies.integer(known.arity);
        replies.set(1);
        replies.simple(if known.keyed { "write" } else { "fast" });
        [key; 3].into_iter().for_each(|place| replies.integer(place));
        // No categories, hints, further keys or subcommands.
        replies.set(0);
        [0; 3].into_iter().for_each(|none| replies.array(none));
    }
}

pub(super) fn unknown_subcommand(command: &Command<'_>, name: &str, replies: &mut Replies) {
    let told = command.shown(1);
    let told: String = told.chars().take(128).collect();
    replies.error(&format!("ERR unknown subcommand '{told}'. See COMMAND DOCS {name}."));
}
