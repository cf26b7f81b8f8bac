//! The temporary folder and the child processes of a check, which never outlive it.
//!
//! A workspace is closed when its check ends, fails, takes too long, or when a signal stops the program.
//! From then on it starts no more processes.

use std::io;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, bail};
use tempfile::TempDir;

/// A child process that its check and its workspace can both end.
pub(super) type SharedChild = Arc<Mutex<Child>>;

/// The temporary folder and the child processes of a check.
#[derive(Debug, Default)]
pub(super) struct Workspace(Mutex<WorkspaceState>);

#[derive(Debug, Default)]
struct WorkspaceState {
    is_closed: bool,
    /// The temporary folder, once a check needs one.
    folder: Option<TempDir>,
    /// The number of folders in it.
    folders: u32,
    children: Vec<SharedChild>,
}

impl Workspace {
    /// Creates a new folder.
    pub(super) fn folder(&self) -> anyhow::Result<PathBuf> {
        let mut state = self.open_state()?;
        let root = match &state.folder {
            Some(folder) => folder.path().to_owned(),
            None => {
                let folder = tempfile::Builder::new().prefix("tollgate-verify-").tempdir();
                let failed = "cannot create a temporary folder; set TMPDIR to another";
                state.folder.insert(folder.context(failed)?).path().to_owned()
            }
        };
        state.folders += 1;
        let path = root.join(state.folders.to_string());
        std::fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(path)
    }

    /// Starts a child process.
    pub(super) fn spawn(&self, command: &mut Command) -> anyhow::Result<SharedChild> {
        // The lock is held while the process starts, so that none starts after the end.
        let mut state = self.open_state()?;
        let child = command.spawn();
        let child = child.with_context(|| format!("cannot run {:?}", command.get_program()))?;
        let child = Arc::new(Mutex::new(child));
        // Processes that have ended need no end.
        state.children.retain(|child| matches!(lock(child).try_wait(), Ok(None)));
        state.children.push(Arc::clone(&child));
        Ok(child)
    }

    /// Ends all child processes and removes the folder.
    pub(super) fn close(&self) {
        let (folder, children) = {
            let mut state = lock(&self.0);
            state.is_closed = true;
            (state.folder.take(), std::mem::take(&mut state.children))
        };
        for child in children {
            // An error means that the process has ended.
            let _ = end(&child);
        }
        if let Some(folder) = folder {
            let path = folder.path().to_owned();
            if let Err(error) = folder.close() {
                eprintln!("warning: cannot remove {}: {error}", path.display());
            }
        }
    }

    /// Locks the state of a workspace that is not closed.
    fn open_state(&self) -> anyhow::Result<MutexGuard<'_, WorkspaceState>> {
        let state = lock(&self.0);
        match state.is_closed {
            true => bail!("the check was stopped"),
            false => Ok(state),
        }
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        self.close();
    }
}

/// Kills a process and waits for its end.
pub(super) fn end(child: &SharedChild) -> io::Result<()> {
    let mut child = lock(child);
    child.kill()?;
    child.wait().map(drop)
}

/// Locks a value, also after a panic of another thread: the checks go on.
pub(super) fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_workspace_leaves_neither_processes_nor_files() {
        let workspace = Workspace::default();
        let folder = workspace.folder().unwrap();
        std::fs::write(folder.join("file"), "x").unwrap();
        let child = workspace.spawn(Command::new("sleep").arg("600")).unwrap();
        let pid = lock(&child).id();
        workspace.close();
        assert!(lock(&child).try_wait().unwrap().is_some(), "process {pid} runs");
        assert!(!folder.parent().unwrap().exists());
        assert!(workspace.spawn(&mut Command::new("true")).is_err());
        assert!(workspace.folder().is_err());
    }
}
