//! Follows the frames of HTTP/2 on their way in, to notice heads that do not end.
//!
//! h2 waits for the rest of a frame, and for the rest of a head that comes in several frames, as long
//! as the connection lives. Nothing above it can tell such a connection from an idle one. So the bytes
//! are followed here, as those of HTTP/1.1 are. Frames with data are no heads: the reader of each body
//! has its own deadline.

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_target;

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use super::HTTP2_PREFACE;

/// The size of the head of a frame: length, type, flags and stream.
const FRAME_HEAD_BYTES: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PUSH_PROMISE: u8 = 5;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// A scanner that follows the frames on one connection.
#[derive(Debug)]
pub(super) struct FrameScanner {
    /// The number of bytes of the preface that are still to come.
    preface_left: usize,
    frame_head: [u8; FRAME_HEAD_BYTES],
    /// The number of bytes of the frame head that have come.
    filled: usize,
    /// The number of bytes of the payload that are still to come.
    payload_left: usize,
    is_data: bool,
    /// Whether the head of a request goes on in the next frame.
    is_head_open: bool,
    /// The number of frames that are complete.
    completed: u32,
}

impl FrameScanner {
    pub(super) fn new() -> FrameScanner {
        FrameScanner {
            preface_left: HTTP2_PREFACE.len(),
            frame_head: [0; FRAME_HEAD_BYTES],
            filled: 0,
            payload_left: 0,
            is_data: false,
            is_head_open: false,
            completed: 0,
        }
    }

    /// Follows received bytes.
    pub(super) fn scan(&mut self, mut bytes: &[u8]) {
        let preface = self.preface_left.min(bytes.len());
        self.preface_left -= preface;
        bytes = &bytes[preface..];
        while !bytes.is_empty() {
            if self.payload_left > 0 {
                let here = self.payload_left.min(bytes.len());
                self.payload_left -= here;
                bytes = &bytes[here..];
            } else {
                let here = (FRAME_HEAD_BYTES - self.filled).min(bytes.len());
                self.frame_head[self.filled..self.filled + here].copy_from_slice(&bytes[..here]);
                self.filled += here;
                bytes = &bytes[here..];
                if self.filled == FRAME_HEAD_BYTES {
                    self.start_frame();
                }
            }
            if self.filled == FRAME_HEAD_BYTES && self.payload_left == 0 {
                self.filled = 0;
                self.is_data = false;
                // A head in many small frames makes no progress before it ends.
                self.completed = self.completed.wrapping_add(u32::from(!self.is_head_open));
            }
        }
    }

    fn start_frame(&mut self) {
        let [high, middle, low, kind, flags, ..] = self.frame_head;
        self.payload_left = u32::from_be_bytes([0, high, middle, low]) as usize;
        self.is_data = kind == DATA;
        if matches!(kind, HEADERS | PUSH_PROMISE | CONTINUATION) {
            self.is_head_open = flags & END_HEADERS == 0;
        }
    }

    /// Returns whether the connection waits for the rest of a head, or of a frame without data.
    fn is_open(&self) -> bool {
        self.is_head_open || self.filled > 0 && !self.is_data
    }

    /// Publishes the position for the timer of the connection.
    pub(super) fn publish(&self, progress: &HeadProgress) {
        progress.is_open.store(self.is_open(), Ordering::Relaxed);
        progress.completed.store(self.completed, Ordering::Relaxed);
    }
}

/// The progress of heads on one HTTP/2 connection, shared by its scanner and its timer.
#[derive(Debug, Default)]
pub(super) struct HeadProgress {
    is_open: AtomicBool,
    completed: AtomicU32,
}

/// The timer of unfinished heads on one HTTP/2 connection; it is set only while a head is unfinished.
#[derive(Debug)]
pub(crate) struct HeadTimer {
    limit: Duration,
    sleep: Option<Pin<Box<Sleep>>>,
    /// The number of complete frames when the timer was set.
    completed: u32,
}

impl HeadTimer {
    pub(crate) fn new(limit: Duration) -> HeadTimer {
        HeadTimer { limit, sleep: None, completed: 0 }
    }

    /// Returns `Ready` once the same head has been unfinished for the limit.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, progress: &HeadProgress) -> Poll<()> {
        if !progress.is_open.load(Ordering::Relaxed) {
            self.sleep = None;
            return Poll::Pending;
        }
        let completed = progress.completed.load(Ordering::Relaxed);
        if self.sleep.is_none() || self.completed != completed {
            self.sleep = Some(Box::pin(sleep(self.limit)));
            self.completed = completed;
        }
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().poll(context),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags, 0, 0, 0, 1]);
        frame.extend(payload);
        frame
    }

    /// Returns whether a head is open and how many frames are complete, however the bytes are cut.
    fn scan(frames: &[Vec<u8>]) -> (bool, u32) {
        let bytes = [HTTP2_PREFACE.to_vec(), frames.concat()].concat();
        let scanned = |size: usize| {
            let mut scanner = FrameScanner::new();
            bytes.chunks(size).for_each(|piece| scanner.scan(piece));
            (scanner.is_open(), scanner.completed)
        };
        let whole = scanned(bytes.len());
        (1..bytes.len()).for_each(|size| assert_eq!(scanned(size), whole, "in pieces of {size}"));
        whole
    }

    #[test]
    fn complete_frames_are_followed() {
        let settings = frame(4, 0, &[]);
        let head = frame(HEADERS, END_HEADERS, b"head");
        let data = frame(DATA, 0, b"data");
        assert_eq!(scan(&[]), (false, 0));
        assert_eq!(scan(&[settings.clone(), head.clone(), data.clone(), head]), (false, 4));
        assert_eq!(scan(&[settings, data[..11].to_vec()]), (false, 1), "data is no head");
    }

    #[test]
    fn unfinished_heads_are_noticed() {
        let (open, more) = (frame(HEADERS, 0, b"he"), frame(CONTINUATION, 0, b"a"));
        assert_eq!(scan(std::slice::from_ref(&open)), (true, 0));
        assert_eq!(scan(&[open.clone(), more.clone(), more.clone()]), (true, 0), "no progress");
        let end = frame(CONTINUATION, END_HEADERS, b"d");
        assert_eq!(scan(&[open.clone(), more, end]), (false, 1));
        assert_eq!(scan(&[open[..10].to_vec()]), (true, 0), "within a frame");
        assert_eq!(scan(&[open[..3].to_vec()]), (true, 0), "within the head of a frame");
        assert_eq!(scan(&[frame(4, 0, &[]), frame(6, 0, &[0; 8])[..12].to_vec()]), (true, 1));
    }
}
