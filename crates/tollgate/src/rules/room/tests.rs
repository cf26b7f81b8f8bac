//! Tests of waiting rooms.
