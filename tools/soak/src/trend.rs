//! Whether a series of measurements grows.
//!
//! The slope is that of Theil and Sen, the median of the slopes between all pairs: single outliers do
//! not move it, and a burst of other work on the machine is an outlier. The rank correlation of
//! Kendall tells a trend from noise: +1 if every value is above all before it, 0 without an order.

/// The correlation above which a slope is a trend and not noise.
const MIN_CORRELATION: f64 = 0.35;
/// The minimum number of samples after the warm-up.
pub(crate) const MIN_SAMPLES: usize = 6;

/// The growth that a series may have over a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tolerance {
    /// In the unit of the series.
    pub(crate) absolute: f64,
    /// As a share of the median.
    pub(crate) relative: f64,
}

/// The trend of a series after its warm-up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trend {
    pub(crate) median: f64,
    /// The growth over the samples that were judged, by the slope.
    pub(crate) growth: f64,
    pub(crate) correlation: f64,
    /// The maximum growth.
    pub(crate) allowed: f64,
}

impl Trend {
    /// Fits a trend to the last two thirds of a series; `None` if they are too few.
    pub(crate) fn fit(series: &[f64], tolerance: Tolerance) -> Option<Trend> {
        let judged = &series[series.len() / 3..];
        if judged.len() < MIN_SAMPLES {
            return None;
        }
        let (mut slopes, mut order) = (Vec::new(), 0.0);
        for (late, value) in judged.iter().enumerate() {
            for (early, before) in judged[..late].iter().enumerate() {
                slopes.push((value - before) / (late - early) as f64);
                order += if value > before {
                    1.0
                } else if value < before {
                    -1.0
                } else {
                    0.0
                };
            }
        }
        let pairs = slopes.len() as f64;
        let median = median(&mut judged.to_vec());
        Some(Trend {
            median,
            growth: self::median(&mut slopes) * (judged.len() - 1) as f64,
            correlation: order / pairs,
            allowed: tolerance.absolute.max(tolerance.relative * median),
        })
    }

    /// Returns whether the series grows by more than it may.
    pub(crate) fn is_growing(&self) -> bool {
        self.growth > self.allowed && self.correlation > MIN_CORRELATION
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        0 => (values[middle - 1] + values[middle]) / 2.0,
        _ => values[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: Tolerance = Tolerance { absolute: 4.0, relative: 0.05 };
    const DESCRIPTORS: Tolerance = Tolerance { absolute: 3.0, relative: 0.05 };
    const LATENCY: Tolerance = Tolerance { absolute: 5.0, relative: 0.5 };

    /// Returns a series of 40 samples with noise of the given size.
    fn series(seed: u64, noise: f64, value: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(seed);
        (0..40).map(|at| value(f64::from(at)) + (random.f64() - 0.5) * noise).collect()
    }

    fn is_growing(series: &[f64], tolerance: Tolerance) -> bool {
        Trend::fit(series, tolerance).unwrap().is_growing()
    }

    #[test]
    fn leaks_are_found_in_noise() {
        for seed in 0..100 {
            let memory = series(seed, 4.0, |at| 30.0 + 0.4 * at);
            assert!(is_growing(&memory, MEMORY), "10 MiB in a run: {memory:?}");
            let descriptors = series(seed, 6.0, |at| (40.0 + 0.25 * at).round());
            assert!(is_growing(&descriptors, DESCRIPTORS), "6 in a run");
            let latency = series(seed, 3.0, |at| 2.0 + 0.3 * at);
            assert!(is_growing(&latency, LATENCY), "{latency:?}");
        }
    }

    #[test]
    fn sound_series_pass() {
        for seed in 0..100 {
            let flat = series(seed, 6.0, |_| 30.0);
            assert!(!is_growing(&flat, MEMORY), "{flat:?}");
            let warmed_up = series(seed, 2.0, |at| 30.0 + 3.0 * at.min(10.0));
            assert!(!is_growing(&warmed_up, MEMORY), "{warmed_up:?}");
            let saw_tooth = series(seed, 1.0, |at| 30.0 + 3.0 * (at % 6.0));
            assert!(!is_growing(&saw_tooth, MEMORY), "{saw_tooth:?}");
            let spikes = series(seed, 1.0, |at| if at % 9.0 == 4.0 { 200.0 } else { 2.0 });
            assert!(!is_growing(&spikes, LATENCY), "{spikes:?}");
            let falling = series(seed, 1.0, |at| 100.0 - at);
            assert!(!is_growing(&falling, MEMORY), "{falling:?}");
        }
    }

    #[test]
    fn a_step_in_the_middle_of_a_run_is_growth() {
        let step = series(1, 1.0, |at| if at < 26.0 { 30.0 } else { 45.0 });
        assert!(is_growing(&step, MEMORY), "{step:?}");
    }

    #[test]
    fn a_run_that_is_too_short_has_no_trend() {
        assert!(Trend::fit(&[1.0; 8], MEMORY).is_some());
        assert!(Trend::fit(&[1.0; 7], MEMORY).is_none());
        assert!(Trend::fit(&[], MEMORY).is_none());
    }
}
