//! The fuzz target of the parser of commands.

use super::parser::{CommandBounds, CommandParser};

/// The commands read, and whether an error ended them.
type Commands = (Vec<Vec<Vec<u8>>>, bool);

/// Reads any bytes as commands of the Redis protocol, in pieces of any size.
///
/// The commands do not depend on the pieces, and stay within the bounds. The first byte is the size of
/// the pieces. Seeds have plain line ends, so every input is also tried with those of the protocol.
pub fn fuzz_resp(bytes: &[u8]) {
    let Some((size, bytes)) = bytes.split_first() else { return };
    check(*size, bytes);
    check(*size, &bytes.split(|byte| *byte == b'\n').collect::<Vec<_>>().join(&b"\r\n"[..]));
}

fn check(size: u8, bytes: &[u8]) {
    for bounds in [CommandBounds::AUTHENTICATED, CommandBounds::ANONYMOUS] {
        let whole = commands(bytes, bytes.len().max(1), &bounds);
        assert_eq!(whole, commands(bytes, usize::from(size).max(1), &bounds));
        for command in &whole.0 {
            assert!(command.len() <= bounds.arguments);
            assert!(command.iter().map(Vec::len).sum::<usize>() <= bounds.bytes);
        }
    }
}

/// Returns all commands of an input that arrives in pieces of `size` bytes.
fn commands(input: &[u8], size: usize, bounds: &CommandBounds) -> Commands {
    let (mut parser, mut bytes, mut commands) = (CommandParser::default(), Vec::new(), Vec::new());
    for piece in input.chunks(size) {
        bytes.extend_from_slice(piece);
        loop {
            match parser.next(&mut bytes, bounds) {
                Ok(Some(length)) => {
                    let arguments = parser.spans.iter().map(|span| span.slice(&bytes).to_vec());
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
