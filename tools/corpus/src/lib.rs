//! Replays the stored corpus of a fuzz target as an ordinary test.
//!
//! `fuzz/corpus/<target>/` has inputs that people wrote, and inputs that fuzzing found worth keeping. A
//! test feeds each to the function that the fuzz target calls. It fails if the function panics, needs
//! too much memory, or takes too long; a target whose work must be linear is also given each input
//! many times over.
//!
//! ```no_run
//! # fn read_command(bytes: &[u8]) {}
//! use tollgate_corpus::Corpus;
//! Corpus::of("resp").linear().replay(read_command);
//! ```
//!
//! Time is the CPU time of the thread, so that other work on the machine does not count. Memory is that
//! of the process, and is bounded only where a process runs one test, as under nextest.

mod cost;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

pub use cost::peak_bytes;
use cost::{Cost, measure};

/// The lengths to which an input is repeated for a target whose work must be linear, in bytes.
const SHORT: usize = 4 << 10;
const LONG: usize = 64 << 10;
/// The maximum growth from the short to the long input: linear work grows 16-fold, quadratic work
/// 256-fold.
const MAX_GROWTH: u32 = 80;
/// The memory that a target may use for itself, in MiB.
const SETUP_MIB: u64 = 32;
/// The number of attempts to measure, because a cache miss or a page fault takes CPU time too.
const ATTEMPTS: usize = 3;

/// The stored inputs of a fuzz target, and the bounds of its work.
#[derive(Debug)]
pub struct Corpus {
    target: String,
    folders: Vec<PathBuf>,
    is_linear: bool,
    setup_mib: u64,
}

impl Corpus {
    /// Returns the corpus of a target.
    pub fn of(target: &str) -> Corpus {
        let folder = root().join("fuzz/corpus").join(target);
        Corpus {
            target: target.to_owned(),
            folders: vec![folder],
            is_linear: false,
            setup_mib: SETUP_MIB,
        }
    }

    /// Adds the files of another folder of the repository.
    pub fn and_folder(mut self, folder: &str) -> Corpus {
        self.folders.push(root().join(folder));
        self
    }

    /// Allows a target more memory for itself, in MiB: a memory store reserves 64 MiB and uses little.
    pub fn setup_mib(mut self, mib: u64) -> Corpus {
        self.setup_mib = mib;
        self
    }

    /// Requires that time and memory grow no faster than the input.
    pub fn linear(mut self) -> Corpus {
        self.is_linear = true;
        self
    }

    /// Runs a function on every input.
    ///
    /// # Panics
    /// If there are no inputs, or the function panics or exceeds its bounds on some of them, which
    /// are all listed.
    pub fn replay(&self, run: impl Fn(&[u8])) {
        let inputs = self.inputs();
        assert!(!inputs.is_empty(), "the corpus of {:?} is empty", self.target);
        let failures: Vec<String> = inputs
            .iter()
            .filter_map(|(path, bytes)| {
                let failure = self.check(&run, bytes)?;
                Some(format!("{}: {failure}", path.display()))
            })
            .collect();
        assert!(failures.is_empty(), "{} fails on\n{}", self.target, failures.join("\n"));
    }

    /// Returns the files of the corpus with their contents, sorted by name.
    fn inputs(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut paths = Vec::new();
        self.folders.iter().for_each(|folder| collect_files(folder, &mut paths));
        paths.sort();
        paths
            .into_iter()
            .map(|path| {
                let bytes = fs::read(&path);
                let bytes = bytes.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                (path, bytes)
            })
            .collect()
    }

    /// Returns what is wrong with the work on one input.
    fn check(&self, run: &impl Fn(&[u8]), bytes: &[u8]) -> Option<String> {
        let single = match measured(run, bytes) {
            Ok(cost) => cost,
            Err(panic) => return Some(format!("it panics: {panic}")),
        };
        if let Some(excess) = single.excess(bytes.len(), self.setup_mib << 20) {
            return Some(excess);
        }
        if !self.is_linear || bytes.is_empty() {
            return None;
        }
        let (short, long) = (repeated(bytes, SHORT), repeated(bytes, LONG));
        let mut excess = None;
        for _ in 0..ATTEMPTS {
            let (Ok(short), Ok(long)) = (measured(run, &short), measured(run, &long)) else {
                return Some(format!("it panics when the input is repeated to {LONG} bytes"));
            };
            excess = long.growth_excess(&short, MAX_GROWTH);
            excess.as_ref()?;
        }
        excess
    }
}

/// Runs a function on an input; returns what it cost, or the message of its panic.
fn measured(run: &impl Fn(&[u8]), bytes: &[u8]) -> Result<Cost, String> {
    let run = AssertUnwindSafe(|| run(bytes));
    catch_unwind(|| measure(run)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        text.unwrap_or("without a message").to_owned()
    })
}

/// Returns an input repeated up to a length; a longer one is unchanged.
fn repeated(bytes: &[u8], length: usize) -> Vec<u8> {
    bytes.repeat((length / bytes.len()).max(1))
}

fn collect_files(folder: &Path, paths: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder);
    let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.unwrap_or_else(|error| panic!("{}: {error}", folder.display())).path();
        match path.is_dir() {
            true => collect_files(&path, paths),
            false => paths.push(path),
        }
    }
}

/// Returns the root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the message with which the replay of one input fails; `None` if it passes.
    fn failure(input: &[u8], is_linear: bool, run: impl Fn(&[u8])) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("input"), input).unwrap();
        let folders = vec![folder.path().to_owned()];
        let corpus = Corpus { target: "tested".into(), folders, is_linear, setup_mib: SETUP_MIB };
        let replay = AssertUnwindSafe(|| corpus.replay(run));
        catch_unwind(replay).err().map(|panic| *panic.downcast::<String>().unwrap())
    }

    fn sum(bytes: &[u8]) -> u64 {
        bytes.iter().map(|byte| u64::from(*byte)).sum()
    }

    #[test]
    fn sound_work_passes() {
        let linear = |bytes: &[u8]| {
            let copy = std::hint::black_box(bytes.to_vec());
            std::hint::black_box(sum(&copy));
        };
        assert_eq!(failure(b"abc", true, linear), None);
        assert_eq!(failure(b"", true, linear), None);
    }

    #[test]
    fn a_panic_names_the_input() {
        let failure = failure(b"abc", false, |bytes| assert!(bytes.len() > 3, "it is short"));
        let failure = failure.unwrap();
        assert!(failure.contains("input: it panics: it is short"), "{failure}");
    }

    #[test]
    fn quadratic_time_is_found() {
        let quadratic = |bytes: &[u8]| {
            for end in (0..bytes.len()).step_by(128) {
                std::hint::black_box(sum(&bytes[..end]));
            }
        };
        assert_eq!(failure(b"abc", false, quadratic), None, "a short input hides it");
        let failure = failure(b"abc", true, quadratic).unwrap();
        assert!(failure.contains("CPU time"), "{failure}");
    }

    #[test]
    fn quadratic_memory_is_found() {
        let quadratic = |bytes: &[u8]| {
            let length = bytes.len() * bytes.len() / 16;
            std::hint::black_box(Vec::<u8>::with_capacity(length));
        };
        let failure = failure(b"abc", true, quadratic).unwrap();
        assert!(failure.contains("bytes at once"), "{failure}");
    }

    #[test]
    fn an_announced_length_that_is_allocated_is_found() {
        let trusting = |bytes: &[u8]| {
            let announced = u32::from_be_bytes(bytes.try_into().unwrap());
            std::hint::black_box(Vec::<u8>::with_capacity(announced as usize));
        };
        let failure = failure(&[0x20, 0, 0, 0], false, trusting).unwrap();
        assert!(failure.contains("at once"), "{failure}");
    }

    #[test]
    fn an_empty_corpus_is_no_success() {
        let folder = tempfile::tempdir().unwrap();
        let folders = vec![folder.path().to_owned()];
        let corpus =
            Corpus { target: "tested".into(), folders, is_linear: false, setup_mib: SETUP_MIB };
        assert!(catch_unwind(AssertUnwindSafe(|| corpus.replay(|_| {}))).is_err());
    }
}
