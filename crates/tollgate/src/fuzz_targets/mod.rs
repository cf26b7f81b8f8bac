//! The functions of the fuzz targets of this crate: `cargo xtask fuzz` calls them with arbitrary bytes,
//! and a test with the stored corpus.

mod limit;

pub use crate::memory::snapshot::fuzz_snapshot as snapshot;
pub use limit::limit;

#[cfg(all(test, not(shuttle)))]
mod tests {
    use tollgate_corpus::Corpus;

    #[test]
    fn the_corpus_of_limits_passes() {
        Corpus::of("limit").replay(super::limit);
    }

    #[test]
    fn the_corpus_of_snapshots_passes() {
        Corpus::of("snapshot").setup_mib(1024).replay(super::snapshot);
    }
}
