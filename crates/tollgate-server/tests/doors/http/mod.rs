//! Tests of this door.
