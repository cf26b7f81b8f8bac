//! What rules do to a request on its way: refuse it, hold it back, count how it went, keep a place
//! for it until it is over.

mod ending;
mod held_back;
mod leases;
mod outcomes;
mod places;
mod queues;
mod refusals;
mod stuffing;
