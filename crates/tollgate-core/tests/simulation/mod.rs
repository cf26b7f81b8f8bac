//! A service under an adaptive limit, simulated: seeds, virtual time, and no clock.
//!
//! A [`Scenario`] tells how a service changes and who asks it. [`run`] lets it happen under the
//! limit of a controller, or of somebody *clairvoyant*, who always sets the limit to what keeps the
//! service exactly busy, times the constant that serves the whole story best. An answer is *good*
//! if it came within four times what it takes unloaded, on average; the ideal is what the
//! clairvoyant has of those, on the same arrivals. Every story happens several times, each time
//! with other chances, and the median is told.

mod held_out;
mod random;
mod run;
mod score;
mod service;
mod steering;
mod stories;
mod surprises;
mod told;
mod world;

pub(crate) use held_out::held_out;
use run::run;
pub(crate) use score::{Score, hours, score};
pub(crate) use steering::Steering;
pub(crate) use stories::stories;
pub(crate) use surprises::surprises;
use told::Told;
pub(crate) use world::Scenario;
