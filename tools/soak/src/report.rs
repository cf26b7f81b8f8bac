//! The table of a run, and whether it failed.

use std::fmt;
use std::time::Duration;

use crate::latency::{DOORS, IntervalLatency};
use crate::process_sample::ProcessSample;
use crate::trend::{Tolerance, Trend};

const MEMORY: Tolerance = Tolerance { absolute: 4.0, relative: 0.08 };
const DESCRIPTORS: Tolerance = Tolerance { absolute: 3.0, relative: 0.05 };
const THREADS: Tolerance = Tolerance { absolute: 1.0, relative: 0.0 };
/// A latency is judged as a multiple of that of the control, because the machine may have other work.
const SLOWDOWN: Tolerance = Tolerance { absolute: 2.0, relative: 0.5 };

/// The least latency of the control: below it, differences are those of a clock.
const MIN_CONTROL_MS: f64 = 0.2;

/// A measured quantity over the run.
#[derive(Debug)]
struct SoakSeries {
    name: String,
    unit: &'static str,
    /// `None` for a series that is shown and not judged.
    tolerance: Option<Tolerance>,
    values: Vec<f64>,
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct SoakReport {
    interval: Duration,
    series: Vec<SoakSeries>,
    requests: usize,
    /// The requests without an answer, and the reason of the first.
    failures: (usize, Option<String>),
    /// The panics of workers that the servers report.
    panics: u64,
}

impl SoakReport {
    pub(crate) fn new(interval: Duration) -> SoakReport {
        let mut series = Vec::new();
        let mut add = |name: String, unit: &'static str, tolerance: Option<Tolerance>| {
            series.push(SoakSeries { name, unit, tolerance, values: Vec::new() });
        };
        for process in ["server", "gateway"] {
            add(format!("{process} memory"), "MiB", Some(MEMORY));
            add(format!("{process} descriptors"), "", Some(DESCRIPTORS));
            add(format!("{process} threads"), "", Some(THREADS));
        }
        for door in DOORS {
            add(format!("{} p99", door.as_str()), "ms", None);
        }
        for door in &DOORS[..DOORS.len() - 1] {
            add(format!("{} slowdown", door.as_str()), "x", Some(SLOWDOWN));
        }
        SoakReport { interval, series, requests: 0, failures: (0, None), panics: 0 }
    }

    /// Adds the measurements of an interval.
    pub(crate) fn add(
        &mut self,
        server: &ProcessSample,
        gateway: &ProcessSample,
        doors: &[IntervalLatency; DOORS.len()],
    ) {
        let of_process = |sample: &ProcessSample| {
            [sample.memory_mib, sample.descriptors as f64, sample.threads as f64]
        };
        let processes = [server, gateway].into_iter().flat_map(of_process);
        let millis = |latency: &IntervalLatency| latency.p99.as_secs_f64() * 1e3;
        let control = millis(&doors[DOORS.len() - 1]).max(MIN_CONTROL_MS);
        let slowdowns = doors[..DOORS.len() - 1].iter().map(|door| millis(door) / control);
        let values = processes.chain(doors.iter().map(millis)).chain(slowdowns);
        for (series, value) in self.series.iter_mut().zip(values) {
            series.values.push(value);
        }
        self.requests += doors.iter().map(|door| door.requests).sum::<usize>();
        for (door, latency) in DOORS.iter().zip(doors) {
            if latency.requests == 0 {
                self.failures.0 += 1;
                let reason = format!("{}: no request in an interval", door.as_str());
                self.failures.1.get_or_insert(reason);
            }
        }
    }

    /// Adds the requests that had no answer.
    pub(crate) fn set_failures(&mut self, (count, reason): (usize, Option<String>)) {
        self.failures.0 += count;
        if self.failures.1.is_none() {
            self.failures.1 = reason;
        }
    }

    /// Sets the number of panics that the servers report.
    pub(crate) fn set_panics(&mut self, panics: u64) {
        self.panics = panics;
    }

    /// Returns whether nothing grew, and nothing failed.
    pub(crate) fn is_sound(&self) -> bool {
        self.failures.0 == 0 && self.panics == 0 && self.series.iter().all(SoakSeries::is_sound)
    }
}

impl SoakSeries {
    fn trend(&self) -> Option<Trend> {
        let shown_only = Tolerance { absolute: f64::INFINITY, relative: 0.0 };
        Trend::fit(&self.values, self.tolerance.unwrap_or(shown_only))
    }

    /// Returns whether the series does not grow. A run that is too short proves nothing.
    fn is_sound(&self) -> bool {
        self.tolerance.is_none() || self.trend().is_some_and(|trend| !trend.is_growing())
    }
}

impl fmt::Display for SoakReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let samples = self.series.first().map_or(0, |series| series.values.len());
        let interval = self.interval;
        writeln!(f, "{samples} samples, one every {interval:?}; {} requests", self.requests)?;
        writeln!(
            f,
            "{:<22}{:>10}{:>10}{:>10}{:>10}{:>10}{:>7}",
            "series", "first", "median", "last", "growth", "allowed", "tau"
        )?;
        for series in &self.series {
            let (first, last) = (series.values.first(), series.values.last());
            let (first, last) = (first.copied().unwrap_or(0.0), last.copied().unwrap_or(0.0));
            let name = match series.unit {
                "" => series.name.clone(),
                unit => format!("{} ({unit})", series.name),
            };
            let Some(trend) = series.trend() else {
                writeln!(f, "{name:<22}{first:>10.1}{:>10}{last:>10.1}   too few samples", "")?;
                continue;
            };
            let Trend { median, growth, allowed, correlation } = trend;
            write!(f, "{name:<22}{first:>10.1}{median:>10.1}{last:>10.1}")?;
            write!(f, "{growth:>+10.1}{allowed:>10.1}{correlation:>+7.2}")?;
            writeln!(f, "{}", if trend.is_growing() { "  GROWS" } else { "" })?;
        }
        if let (failures @ 1.., reason) = &self.failures {
            writeln!(f, "{failures} requests failed: {}", reason.as_deref().unwrap_or_default())?;
        }
        if self.panics > 0 {
            writeln!(f, "{} panics of workers: see the logs", self.panics)?;
        }
        let growing: Vec<&str> = (self.series.iter().filter(|series| !series.is_sound()))
            .map(|series| series.name.as_str())
            .collect();
        match self.is_sound() {
            true => write!(f, "soak: ok"),
            false => write!(f, "soak: FAILED. {}", growing.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(leaked_mib: f64, leaked_descriptors: usize, failures: usize) -> SoakReport {
        let mut report = SoakReport::new(Duration::from_secs(10));
        for number in 0..30_usize {
            let sample = ProcessSample {
                memory_mib: 40.0 + leaked_mib * number as f64,
                descriptors: 50 + leaked_descriptors * number,
                threads: 8,
            };
            let sound = ProcessSample { memory_mib: 30.0, descriptors: 40, threads: 8 };
            let p99 = Duration::from_millis(5);
            let latency = IntervalLatency { requests: 100, p99 };
            report.add(&sample, &sound, &[latency; DOORS.len()]);
        }
        report.set_failures((failures, (failures > 0).then(|| "http: no answer".to_owned())));
        report
    }

    #[test]
    fn a_sound_run_passes_and_a_leak_is_named() {
        let sound = run(0.0, 0, 0);
        assert!(sound.is_sound(), "{sound}");
        let text = run(1.0, 0, 0).to_string();
        assert!(text.ends_with("soak: FAILED. server memory"), "{text}");
        let text = run(0.0, 1, 0).to_string();
        assert!(text.ends_with("soak: FAILED. server descriptors"), "{text}");
    }

    /// A machine that gets slower slows the control too; a door that gets slower does not.
    #[test]
    fn latency_is_judged_beside_the_control() {
        let run = |door_ms: fn(u64) -> u64, control_ms: fn(u64) -> u64| {
            let mut report = SoakReport::new(Duration::from_secs(10));
            let sample = ProcessSample { memory_mib: 30.0, descriptors: 40, threads: 8 };
            for number in 0..30 {
                let latency =
                    |ms| IntervalLatency { requests: 100, p99: Duration::from_millis(ms) };
                let mut doors = [latency(door_ms(number)); DOORS.len()];
                doors[DOORS.len() - 1] = latency(control_ms(number));
                report.add(&sample, &sample, &doors);
            }
            report
        };
        let slower_machine = run(|number| 6 + 5 * number, |number| 4 + 3 * number);
        assert!(slower_machine.is_sound(), "{slower_machine}");
        let slower_door = run(|number| 6 + 2 * number, |_| 4);
        assert!(!slower_door.is_sound(), "{slower_door}");
        assert!(slower_door.to_string().contains("FAILED. http slowdown, "), "{slower_door}");
    }

    #[test]
    fn failed_requests_and_panics_fail_the_run() {
        let failed = run(0.0, 0, 3);
        assert!(!failed.is_sound());
        assert!(failed.to_string().contains("3 requests failed: http: no answer"), "{failed}");
        let mut panicked = run(0.0, 0, 0);
        panicked.set_panics(1);
        assert!(!panicked.is_sound());
    }

    #[test]
    fn a_door_without_requests_fails_the_run() {
        let mut report = run(0.0, 0, 0);
        let sound = ProcessSample { memory_mib: 30.0, descriptors: 40, threads: 8 };
        report.add(&sound, &sound, &[IntervalLatency::default(); DOORS.len()]);
        assert!(!report.is_sound());
    }
}
