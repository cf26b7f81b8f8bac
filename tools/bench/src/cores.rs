//! The processor cores of servers and load generators.

use std::fs;
use std::process::Command;
use std::thread;

/// The core of the servers; load generators run on [`LOADER`].
pub(crate) const SERVER: usize = 0;
const LOADER: usize = 1;

/// Moves this process, and every load generator it starts, to the core of the load generators.
///
/// Also raises the limit of open files to `files` if possible, and returns the limit.
pub(crate) fn pin_to_load_core(files: u64) -> Result<u64, String> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    if cores < 2 {
        return Err("needs two cores: one for servers, one for load".to_owned());
    }
    let process = std::process::id().to_string();
    let run = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).output();
        output.is_ok_and(|output| output.status.success())
    };
    if !run("taskset", &["--all-tasks", "--cpu-list", "--pid", &LOADER.to_string(), &process]) {
        return Err(format!("taskset could not move this process to core {LOADER}"));
    }
    run("prlimit", &["--pid", &process, &format!("--nofile={files}:{files}")]);
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    Ok(line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(1024))
}
