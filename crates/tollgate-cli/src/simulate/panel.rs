//! One row of a chart or plot: what became of the same traffic under one set of limits or rules.

use super::timeline::{Counts, Timeline};
use crate::log::date;

/// What is drawn of a lane.
#[derive(Debug)]
pub(super) struct Panel<'a> {
    /// A short name, for charts of 80 columns.
    pub(super) label: &'a str,
    /// The same with details, for plots.
    pub(super) title: String,
    pub(super) total: Counts,
    pub(super) timeline: &'a Timeline,
}

/// How a time that charts count from is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// As the trace has it, in microseconds.
    Trace,
    /// As a date.
    Date,
}

impl Origin {
    pub(super) fn of(self, zero_us: u64) -> String {
        match self {
            Origin::Trace => format!("at_us = {zero_us}"),
            Origin::Date => format!("{} UTC", date(zero_us)),
        }
    }
}
