//! The functions of the fuzz targets of this crate: `cargo xtask fuzz` calls them with arbitrary bytes,
//! and a test with the stored corpus. Each is beside the parser that it checks.

pub use crate::import::fuzz_target::{import_envoy, import_kong, import_limitador, import_nginx};
pub use crate::log::fuzz_target::access_log;

#[cfg(test)]
mod tests {
    use tollgate_corpus::Corpus;

    #[test]
    fn the_corpus_of_envoy_imports_passes() {
        Corpus::of("import_envoy").replay(super::import_envoy);
    }

    #[test]
    fn the_corpus_of_kong_imports_passes() {
        Corpus::of("import_kong").replay(super::import_kong);
    }

    #[test]
    fn the_corpus_of_limitador_imports_passes() {
        Corpus::of("import_limitador").replay(super::import_limitador);
    }

    #[test]
    fn the_corpus_of_nginx_imports_passes() {
        Corpus::of("import_nginx").replay(super::import_nginx);
    }

    #[test]
    fn the_corpus_of_access_logs_passes() {
        Corpus::of("access_log").linear().replay(super::access_log);
    }
}
