//! Waits for several store calls at once.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Polls all futures until each is done, and returns their outputs in order.
///
/// The calls to a remote store are then under way together, and started in that order.
pub(crate) async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    enum Progress<F: Future> {
        Pending(Pin<Box<F>>),
        Done(F::Output),
    }
    let mut calls: Vec<Progress<F>> =
        futures.into_iter().map(|future| Progress::Pending(Box::pin(future))).collect();
    poll_fn(|context| {
        let mut pending = false;
        for call in &mut calls {
            if let Progress::Pending(future) = call {
                match future.as_mut().poll(context) {
                    Poll::Ready(output) => *call = Progress::Done(output),
                    Poll::Pending => pending = true,
                }
            }
        }
        if pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    let done = calls.into_iter().filter_map(|call| match call {
        Progress::Done(output) => Some(output),
        Progress::Pending(_) => None,
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
        let mut joined = std::pin::pin!(join_all(futures));
        let mut context = Context::from_waker(Waker::noop());
        assert!(joined.as_mut().poll(&mut context).is_pending());
        assert_eq!(joined.as_mut().poll(&mut context), Poll::Ready(vec![1, 2]));
    }
}
