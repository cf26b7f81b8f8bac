//! Runs the built binary.
#![allow(dead_code, reason = "every test file uses its own part")]

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// The result of a run.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs `tollgate` with `args`, and `stdin` to read, in an environment without settings.
pub(crate) fn tollgate(args: &[&str], stdin: &str) -> Run {
    tollgate_in(&[], args, stdin)
}

/// Runs `tollgate` with settings in the environment.
pub(crate) fn tollgate_in(env: &[(&str, &str)], args: &[&str], stdin: &str) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TOLLGATE_") {
            command.env_remove(name);
        }
    }
    command.args(args).env_remove("CLICOLOR_FORCE").envs(env.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    // The process may stop reading before the end.
    let _ = child.stdin.take().expect("stdin is piped").write_all(stdin.as_bytes());
    let output = child.wait_with_output().expect("the binary ends");
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    Run {
        code: output.status.code().unwrap_or(-1),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// Returns the verdicts on a trace as lines of JSON.
pub(crate) fn answers(limits: &[&str], trace: &str) -> Vec<String> {
    let mut args = vec!["simulate", "--trace", "-", "--json"];
    limits.iter().for_each(|limit| args.extend(["--limit", limit]));
    let run = tollgate(&args, trace);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    run.stdout.lines().map(String::from).collect()
}

/// Writes a trace to a file, in a directory that is removed with the first value.
pub(crate) fn file(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("trace.jsonl");
    std::fs::write(&path, text).expect("a file");
    (folder, path)
}

/// Writes files to a directory that is removed with the value.
pub(crate) fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("a file");
    }
    folder
}

/// Returns the path of a file in a directory, as an argument.
pub(crate) fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).display().to_string()
}

/// Runs `tollgate` with `args`, and returns its exit code and its JSON output.
pub(crate) fn json(args: &[&str], stdin: &str) -> (i32, serde_json::Value) {
    let run = tollgate(args, stdin);
    assert_eq!(run.stderr, "");
    let value = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{}", run.stdout));
    (run.code, value)
}
