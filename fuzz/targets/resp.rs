//! Any bytes as commands of the Redis protocol, cut anywhere: what is read does not depend on how
//! they arrive, and stays within its bounds.
//!
//! The first byte says in what pieces the others come. Seeds are texts with plain line ends, so
//! every input is tried with those of the protocol as well.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/tollgate-server/src/doors/resp/inline.rs"]
mod inline;
#[path = "../../crates/tollgate-server/src/doors/resp/request.rs"]
mod request;

use request::{Bounds, Parser};

/// Commands, and whether an error ended them.
type Commands = (Vec<Vec<Vec<u8>>>, bool);

fuzz_target!(|input: (u8, &[u8])| {
    let (size, bytes) = input;
    check(size, bytes);
    check(size, &bytes.split(|byte| *byte == b'\n').collect::<Vec<_>>().join(&b"\r\n"[..]));
});

fn check(size: u8, bytes: &[u8]) {
    for bounds in [Bounds::KNOWN, Bounds::STRANGER] {
        let whole = commands(bytes, bytes.len().max(1), &bounds);
        assert_eq!(whole, commands(bytes, usize::from(size).max(1), &bounds));
        for command in &whole.0 {
            assert!(command.len() <= bounds.arguments);
            assert!(command.iter().map(Vec::len).sum::<usize>() <= bounds.bytes);
        }
    }
}

/// All commands in what comes in pieces of `size` bytes.
fn commands(input: &[u8], size: usize, bounds: &Bounds) -> Commands {
    let (mut parser, mut bytes, mut commands) = (Parser::default(), Vec::new(), Vec::new());
    for piece in input.chunks(size) {
        bytes.extend_from_slice(piece);
        loop {
            match parser.next(&mut bytes, bounds) {
                Ok(Some(length)) => {
                    let arguments = parser.places.iter().map(|place| place.of(&bytes).to_vec());
                    commands.push(arguments.collect());
                    bytes.drain(..length);
                }
                Ok(None) => break,
                Err(_) => return (commands, true),
            }
        }
    }
    (commands, false)
}
