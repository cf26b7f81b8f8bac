//! A simulated service under an adaptive limit: seeds, virtual time, and no clock.
//!
//! A [`Scenario`] describes how a service and its load change. [`run`] simulates it under the limit of a
//! controller, or of an *oracle* that always sets the limit to what keeps the service exactly busy,
//! times the constant that is best for the whole scenario. A response is *good* if it came within four
//! times the mean unloaded latency; the ideal is the number of good responses under the oracle, on the
//! same arrivals. Every scenario runs several times with different seeds, and the median is reported.

mod held_out_scenarios;
mod limit_policy;
mod outcome;
mod random;
mod regression_scenarios;
mod scenario;
mod score;
mod service;
mod simulator;
mod tuned_scenarios;

pub(crate) use held_out_scenarios::held_out_scenarios;
pub(crate) use limit_policy::LimitPolicy;
use outcome::Outcome;
pub(crate) use regression_scenarios::regression_scenarios;
pub(crate) use scenario::Scenario;
pub(crate) use score::{Score, score, three_hours_of_overload};
use simulator::run;
pub(crate) use tuned_scenarios::tuned_scenarios;
