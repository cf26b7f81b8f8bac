//! Calendar tests.
