//! Tokens of a language model: the cost of a request is known only after the reply.
//!
//! A request reserves its maximum cost (`max_tokens`) under a limit per minute and one per day, and
//! settles for the actual cost. The rest is refunded, an overrun becomes debt that later requests
//! wait for, and a failed request costs nothing. Prints the tokens left after each step:
//!
//! ```text
//! short reply, 812 of 4096 used     9188 left
//! upstream error, cancelled         9188 left
//! two at once, the third must wait   996 left, retry in 18.6s
//! both ran over                        0 left, retry in 48s
//! a minute later                    6000 left
//! the day's budget is gone: over the limit of 20k/day: retry in 4h 53min
//! ```

use std::time::Duration;

use tollgate::testing::ManualClock;
use tollgate::{Hold, Limiter};

const MAX_TOKENS: u64 = 4_096;

/// The outcome of a request to the model.
enum ModelResult {
    Used(u64),
    Failed,
}

fn finish(hold: Hold, result: ModelResult) {
    match result {
        ModelResult::Used(tokens) => hold.settle(tokens),
        ModelResult::Failed => hold.cancel(),
    };
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = ManualClock::new();
    let tokens = Limiter::builder()
        .limits(["10k tokens/min".parse()?, "20k tokens/day".parse()?])
        .clock(&clock)
        .build_keyed();
    let left = || tokens.peek("acme").remaining;

    finish(tokens.reserve("acme", MAX_TOKENS)?, ModelResult::Used(812));
    println!("short reply, 812 of 4096 used    {:5} left", left());
    assert_eq!(left(), 9_188);

    finish(tokens.reserve("acme", MAX_TOKENS)?, ModelResult::Failed);
    println!("upstream error, cancelled        {:5} left", left());
    assert_eq!(left(), 9_188);

    let pair = [tokens.reserve("acme", MAX_TOKENS)?, tokens.reserve("acme", MAX_TOKENS)?];
    let retry = tokens.reserve("acme", MAX_TOKENS).unwrap_err().retry_after.expect("it fits");
    println!("two at once, the third must wait {:5} left, retry in {retry:?}", left());
    assert_eq!((left(), retry), (996, Duration::from_millis(18_600)));

    // The models ignored max_tokens, and 812 + 13,188 of 10,000 tokens are spent.
    pair.into_iter().for_each(|hold| finish(hold, ModelResult::Used(6_594)));
    let retry = tokens.check_n("acme", 4_000).unwrap_err().retry_after.expect("it fits");
    println!("both ran over                    {:5} left, retry in {retry:?}", left());
    assert_eq!((left(), retry), (0, Duration::from_secs(48)));

    clock.advance(Duration::from_secs(60));
    println!("a minute later                   {:5} left", left());
    assert_eq!(left(), 6_000);

    finish(tokens.reserve("acme", 6_000)?, ModelResult::Used(6_000));
    clock.advance(Duration::from_secs(60));
    let denied = tokens.reserve("acme", MAX_TOKENS).unwrap_err();
    println!("the day's budget is gone: {denied}");
    assert_eq!(denied.index, 1);
    assert!(tokens.reserve("zenith", MAX_TOKENS).is_ok(), "others have budgets of their own");
    Ok(())
}
