//! CPU time of processes.

use std::fs;
use std::time::Duration;

use tollgate_server::net::Address;

/// Returns the CPU time that a process has used, in user and kernel mode.
pub(super) fn used(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program name may contain any text, so fields are counted after its closing bracket.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field)?.parse::<u64>().ok();
    let ticks = ticks(11)? + ticks(12)?;
    Some(Duration::from_secs(ticks) / rustix::param::clock_ticks_per_second().try_into().ok()?)
}

/// Returns the process that listens on a port of this machine, if it is visible.
pub(super) fn listener(at: &Address) -> Option<u32> {
    let Address::Tcp(address) = at else { return None };
    if !address.ip().is_loopback() {
        return None;
    }
    let inodes: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| listening(&table, address.port()))
        .collect();
    let sockets: Vec<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut targets = files.filter_map(|file| fs::read_link(file.path()).ok());
        targets.any(|target| sockets.iter().any(|socket| target.as_os_str() == socket.as_str()))
    })
}

/// Returns the inodes of sockets that listen on a port, from a table in `/proc/net`.
fn listening(table: &str, port: u16) -> Vec<String> {
    const LISTEN: &str = "0A";
    let port = format!(":{port:04X}");
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let matching = rows.filter(|row| row.len() > 9 && row[1].ends_with(&port) && row[3] == LISTEN);
    matching.map(|row| row[9].to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listening_process_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap());
        assert_eq!(super::listener(&address), Some(std::process::id()));
        drop(listener);
        assert_eq!(super::listener(&address), None);
    }

    #[test]
    fn the_cpu_time_of_this_process_is_known() {
        assert!(used(std::process::id()).is_some());
        assert_eq!(used(u32::MAX), None);
    }
}
