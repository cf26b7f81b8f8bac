//! What a process uses at a moment, as Linux reports it.

use std::fmt;
use std::fs;

/// The memory, descriptors and threads of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessSample {
    /// The resident memory, in MiB.
    pub(crate) memory_mib: f64,
    pub(crate) descriptors: usize,
    pub(crate) threads: usize,
}

impl ProcessSample {
    pub(crate) fn read(pid: u32) -> Result<ProcessSample, String> {
        let gone = |error| format!("process {pid} has ended: {error}");
        let status = fs::read_to_string(format!("/proc/{pid}/status")).map_err(gone)?;
        let field = |name: &str| -> Option<usize> {
            let line =
                status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            line.split_whitespace().next()?.parse().ok()
        };
        let missing = || format!("/proc/{pid}/status cannot be read");
        let memory_kib = field("VmRSS").ok_or_else(missing)?;
        Ok(ProcessSample {
            memory_mib: memory_kib as f64 / 1024.0,
            descriptors: fs::read_dir(format!("/proc/{pid}/fd")).map_err(gone)?.count(),
            threads: field("Threads").ok_or_else(missing)?,
        })
    }
}

impl fmt::Display for ProcessSample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ProcessSample { memory_mib, descriptors, threads } = self;
        write!(f, "{memory_mib:.1} MiB, {descriptors} descriptors, {threads} threads")
    }
}
