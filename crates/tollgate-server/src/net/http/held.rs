//! A body that keeps its connection busy until it is sent.

use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::turns::Since;
use super::wire::Busy;

pin_project! {
    /// A body that keeps its connection busy until it is sent: who listens to a stream is not idle.
    #[derive(Debug)]
    pub(super) struct Held<B> {
        #[pin]
        body: B,
        turn: Turn,
    }
}

/// Whose turn it is with this body.
#[derive(Debug)]
struct Turn {
    busy: Busy,
    since: Since,
}

impl Turn {
    fn readers(&mut self) {
        self.busy.pulse().turns.readers(&mut self.since);
    }

    fn ours(&mut self) {
        self.busy.pulse().turns.ours(&mut self.since);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.ours();
    }
}

impl<B> Held<B> {
    pub(super) fn new(body: B, busy: Busy) -> Held<B> {
        let mut turn = Turn { busy, since: Since::default() };
        turn.readers();
        Held { body, turn }
    }
}

impl<B: Body> Body for Held<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let frame = this.body.poll_frame(context);
        match frame.is_ready() {
            true => this.turn.readers(),
            false => this.turn.ours(),
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
