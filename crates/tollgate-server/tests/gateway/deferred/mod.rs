//! `then: defer`: kept, answered 202, and sent when the limit allows.

mod dead;
mod lasting;
mod lines;
mod passing;
mod refusing;
mod shared;
mod stalled_disk;
mod support;
