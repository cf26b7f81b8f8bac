//! Files of Envoy's rate limit service: every row of what is known about the original, as a test.
#![cfg(feature = "rules")]

mod envoy {
    mod answers;
    mod by_rules;
    mod counting;
    mod extensions;
    mod identity;
    mod loading;
    mod matching;
    mod policies;
    mod service;
}
