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
#[derive(Debug)]
pub(super) struct Workspace(Mutex<WorkspaceState>);

#[derive(Debug)]
struct WorkspaceState {
    /// The folder; none once the workspace is closed.
    folder: Option<TempDir>,
    children: Vec<SharedChild>,
    folders: u32,
}

impl Workspace {
    pub(super) fn create() -> anyhow::Result<Arc<Workspace>> {
        let folder = tempfile::Builder::new().prefix("tollgate-verify-").tempdir();
        let folder = folder.context("cannot create a temporary folder; set TMPDIR to another")?;
        let state = WorkspaceState { folder: Some(folder), children: Vec::new(), folders: 0 };
        Ok(Arc::new(Workspace(Mutex::new(state))))
    }

    /// Creates a new folder.
    pub(super) fn folder(&self) -> anyhow::Result<PathBuf> {
        let mut state = self.state();
        state.folders += 1;
        let Some(folder) = &state.folder else { bail!("the check was stopped") };
        let path = folder.path().join(state.folders.to_string());
        std::fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(path)
    }

    /// Starts a child process.
    pub(super) fn spawn(&self, command: &mut Command) -> anyhow::Result<SharedChild> {
        // The lock is held while the process starts, so that none starts after the end.
        let mut state = self.state();
        if state.folder.is_none() {
            bail!("the check was stopped");
        }
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
            let mut state = self.state();
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

    fn state(&self) -> MutexGuard<'_, WorkspaceState> {
        lock(&self.0)
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
        let workspace = Workspace::create().unwrap();
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
