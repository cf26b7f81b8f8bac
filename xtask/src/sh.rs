//! Running of commands: each is printed, and runs in the root of the repository.

#![allow(
    clippy::disallowed_methods,
    reason = "the ban protects decisions of the limiter; this file times and awaits real processes"
)]

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::Result;

/// Returns the root of the repository. Cargo sets the path of this crate at run time; a binary that is
/// started directly uses the path it was compiled in.
pub(crate) fn root() -> PathBuf {
    let manifest =
        std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&manifest).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Returns a command that runs in the root.
pub(crate) fn command(program: impl AsRef<OsStr>, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).current_dir(root());
    command
}

/// Returns a command of the cargo that started xtask, so that `cargo +toolchain xtask …` applies to
/// all of them.
pub(crate) fn cargo(args: &[&str]) -> Command {
    command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), args)
}

/// Runs a command; any exit code but 0 is an error that names the command.
pub(crate) fn run(command: &mut Command) -> Result {
    echo(command);
    let status = command.status().map_err(|e| format!("{}: {e}", command_line(command)))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{}: {status}", command_line(command)).into())
    }
}

/// Returns the folder of build artifacts.
pub(crate) fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Runs a command without input, and kills it after `limit`.
pub(crate) fn run_within(command: &mut Command, limit: Duration) -> Result {
    echo(command);
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .spawn()
        .map_err(|e| format!("{}: {e}", command_line(command)))?;
    loop {
        if let Some(status) = child.try_wait()? {
            let failed = || format!("{}: {status}", command_line(command)).into();
            return status.success().then_some(()).ok_or_else(failed);
        }
        if started.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Err(format!("{}: still running after {limit:?}", command_line(command)).into());
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// An output stream of a command.
#[derive(Clone, Copy)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// Runs a command, prints one stream line by line, and returns it with whether the command succeeded.
pub(crate) fn tee(command: &mut Command, stream: Stream) -> Result<(bool, String)> {
    echo(command);
    match stream {
        Stream::Stdout => command.stdout(Stdio::piped()),
        Stream::Stderr => command.stderr(Stdio::piped()),
    };
    let mut child = command.spawn().map_err(|e| format!("{}: {e}", command_line(command)))?;
    let text = match stream {
        Stream::Stdout => copy_lines(child.stdout.take(), &mut std::io::stdout()),
        Stream::Stderr => copy_lines(child.stderr.take(), &mut std::io::stderr()),
    }?;
    Ok((child.wait()?.success(), text))
}

fn copy_lines(from: Option<impl Read>, to: &mut impl Write) -> Result<String> {
    let mut from = BufReader::new(from.ok_or("the stream is not piped")?);
    let mut text = String::new();
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        text.push_str(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok(text)
}

/// Returns the result of `f`, and the time it took.
pub(crate) fn timed<T>(f: impl FnOnce() -> T) -> (T, Duration) {
    let started = Instant::now();
    let value = f();
    (value, started.elapsed())
}

fn echo(command: &Command) {
    eprintln!("$ {}", command_line(command));
}

/// Returns the command as it would be typed.
fn command_line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut line =
        program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
    for arg in command.get_args() {
        line.push(' ');
        line.push_str(&arg.to_string_lossy());
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_typed() {
        assert_eq!(command_line(&command("/usr/bin/git", &["status", "-s"])), "git status -s");
    }

    #[test]
    fn failure_names_the_command() {
        assert!(run(&mut command("true", &[])).is_ok());
        let error = run(&mut command("false", &["x"])).unwrap_err().to_string();
        assert!(error.starts_with("false x: "), "{error}");
    }

    #[test]
    fn a_command_that_does_not_end_is_killed() {
        // `cat` ends because it has no input; `tail -f` never ends.
        let limit = Duration::from_secs(30);
        assert!(run_within(&mut command("cat", &[]), limit).is_ok());
        let endless = &mut command("tail", &["-f", "/dev/null"]);
        let error = run_within(endless, Duration::ZERO).unwrap_err().to_string();
        assert!(error.contains("still running"), "{error}");
    }

    #[test]
    fn tee_returns_the_output() {
        let (ok, text) = tee(&mut command("echo", &["one"]), Stream::Stdout).unwrap();
        assert!(ok);
        assert_eq!(text, "one\n");
    }
}
