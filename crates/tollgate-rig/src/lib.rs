//! Real Redis and Valkey servers on free ports, for tests, fault runs and benches.
