//! The fuzz target of the scanner of HTTP/2 frames.

use super::{
    CONTINUATION, DATA, END_HEADERS, FRAME_HEAD_BYTES, FrameScanner, HEADERS, PUSH_PROMISE,
};
use crate::net::http::HTTP2_PREFACE;

/// Follows any bytes as frames after the preface. The first byte is the size of the pieces.
///
/// The position does not depend on the pieces, and is that of a reader that has all bytes at once.
pub fn fuzz_frames(bytes: &[u8]) {
    let Some((size, frames)) = bytes.split_first() else { return };
    let bytes = [HTTP2_PREFACE, frames].concat();
    for size in [bytes.len(), usize::from(*size).max(1)] {
        let mut scanner = FrameScanner::new();
        bytes.chunks(size).for_each(|piece| scanner.scan(piece));
        let found = (scanner.is_open(), scanner.completed);
        assert_eq!(found, read_at_once(frames), "in pieces of {size}");
    }
}

/// Returns whether a head is open at the end, and the number of complete frames that ended none.
fn read_at_once(mut frames: &[u8]) -> (bool, u32) {
    let (mut is_head_open, mut completed) = (false, 0);
    while !frames.is_empty() {
        let Some((head, rest)) = frames.split_first_chunk::<FRAME_HEAD_BYTES>() else {
            return (true, completed);
        };
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        if matches!(head[3], HEADERS | PUSH_PROMISE | CONTINUATION) {
            is_head_open = head[4] & END_HEADERS == 0;
        }
        let Some((_, after)) = rest.split_at_checked(length) else {
            return (is_head_open || head[3] != DATA, completed);
        };
        frames = after;
        completed += u32::from(!is_head_open);
    }
    (is_head_open, completed)
}
