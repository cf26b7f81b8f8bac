//! Files and requests of Envoy's rate limit service.
//!
//! A test named `row_NN` checks a row of the table of the original's behaviour.

mod support;

mod envoy {
    mod by_rules;
    mod counting;
    mod explanations;
    mod extensions;
    mod identity;
    mod loading;
    mod matching;
    mod merging;
    mod policies;
    mod responses;
    mod service;
    mod statistics;
}
