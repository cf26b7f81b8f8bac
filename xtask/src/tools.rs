//! Tools that a command needs: found on the machine, or installed once.
//!
//! To add a tool, call [`ensure`] just before the step that needs it, so that unused tools are not
//! installed. To add a way to install, add a variant of [`Installer`] and its arm in
//! [`Installer::steps`]. Programs that only tests use are in `components`.

use std::path::PathBuf;
use std::process::Command;

use crate::{Result, sh};

/// The source of a missing tool.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Installer {
    /// `cargo install`, from crates.io.
    Cargo(&'static str),
    /// `cargo install` without optimisation, for a tool that runs for seconds: a fraction of the build.
    CargoDebug(&'static str),
    /// A Debian or Ubuntu package; uses sudo unless the user is root.
    Apt(&'static str),
}

impl Installer {
    /// Returns the commands to run, in order.
    fn steps(self) -> Vec<Vec<&'static str>> {
        match self {
            Self::Cargo(name) => vec![vec!["cargo", "install", name, "--locked"]],
            Self::CargoDebug(name) => vec![vec!["cargo", "install", name, "--locked", "--debug"]],
            Self::Apt(package) => vec![
                vec!["apt-get", "update", "-qq"],
                vec!["apt-get", "install", "-y", "-qq", "--no-install-recommends", package],
            ],
        }
    }

    fn needs_root(self) -> bool {
        matches!(self, Self::Apt(_))
    }
}

/// Makes sure that `program` can be run; installs it if it is missing.
pub(crate) fn ensure(program: &str, installer: Installer) -> Result {
    if find(program).is_some() {
        return Ok(());
    }
    install(program, installer)?;
    match find(program) {
        Some(_) => Ok(()),
        None => {
            Err(format!("{program} was installed but is not on the PATH: add its folder").into())
        }
    }
}

/// Installs a missing tool.
pub(crate) fn install(what: &str, installer: Installer) -> Result {
    eprintln!("{what} is missing: installing it");
    let sudo = installer.needs_root() && !is_root();
    for step in installer.steps() {
        let step = if sudo { [&["sudo", "-n"], step.as_slice()].concat() } else { step };
        let (first, rest) = step.split_first().expect("no step is empty");
        // Without these, Debian packages ask questions and start their servers.
        let quiet = [("DEBIAN_FRONTEND", "noninteractive"), ("RUNLEVEL", "1")];
        sh::run(sh::command(first, rest).envs(quiet))
            .map_err(|error| format!("{what} is missing and could not be installed: {error}"))?;
    }
    Ok(())
}

/// Returns the path of a program: on the PATH, or in the folder of `cargo install`.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let cargo_home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    std::env::split_paths(&path)
        .chain(cargo_home.map(|home| home.join("bin")))
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|out| out.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_on_the_path_is_not_installed() {
        ensure("sh", Installer::Apt("no-such-package")).unwrap();
        assert!(find("no-such-program-anywhere").is_none());
    }
}
