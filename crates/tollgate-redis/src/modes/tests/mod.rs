//! Several nodes over one table, with a clock and delays of the test's own.

mod table;
