//! Waiting for several answers at once.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Polls all futures, in order, until each is done: their outputs, in order. Questions to a store
/// elsewhere are then under way together, and were asked in that order.
pub(crate) async fn all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    enum Slot<F: Future> {
        Waiting(Pin<Box<F>>),
        Done(F::Output),
    }
    let mut slots: Vec<Slot<F>> =
        futures.into_iter().map(|future| Slot::Waiting(Box::pin(future))).collect();
    poll_fn(|context| {
        let mut waiting = false;
        for slot in &mut slots {
            if let Slot::Waiting(future) = slot {
                match future.as_mut().poll(context) {
                    Poll::Ready(output) => *slot = Slot::Done(output),
                    Poll::Pending => waiting = true,
                }
            }
        }
        if waiting { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    let done = slots.into_iter().filter_map(|slot| match slot {
        Slot::Done(output) => Some(output),
        Slot::Waiting(_) => None,
    });
    done.collect()
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn outputs_come_in_the_order_of_the_futures() {
        let mut late = 2;
        let slow = poll_fn(move |_| {
            late -= 1;
            if late == 0 { Poll::Ready(1) } else { Poll::Pending }
        });
        let futures: Vec<Pin<Box<dyn Future<Output = i32>>>> =
            vec![Box::pin(slow), Box::pin(async { 2 })];
        let mut joined = std::pin::pin!(all(futures));
        let mut context = Context::from_waker(Waker::noop());
        assert!(joined.as_mut().poll(&mut context).is_pending());
        assert_eq!(joined.as_mut().poll(&mut context), Poll::Ready(vec![1, 2]));
    }
}
