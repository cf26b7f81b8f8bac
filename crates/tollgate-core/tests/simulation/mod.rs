//! A service under an adaptive limit, simulated: seeds, virtual time, and no clock.
//!
//! A [`Scenario`] tells how a service changes and who asks it. [`run`] lets it happen under the
//! limit of a controller, or of somebody *clairvoyant*, who always sets the limit to what keeps the
//! service exactly busy, times the constant that serves the whole story best. An answer is *good*
//! if it came within four times what it takes unloaded, on average; the ideal is what the
//! clairvoyant has of those, on the same arrivals. Every story happens several times, each time
//! with other chances, and the median is told.

mod random;
mod run;
mod score;
mod service;
mod steering;
mod stories;
mod told;
mod world;

use run::run;
pub(crate) use score::{Score, hours, score};
pub(crate) use steering::Steering;
pub(crate) use stories::stories;
use told::Told;
use world::Scenario;
