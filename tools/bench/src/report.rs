//! The printed report: aligned tables under a header with machine, method and versions.

/// The lock file, which has the versions that were built.
const LOCK: &str = include_str!("../../../Cargo.lock");

const PEERS: [&str; 5] = ["governor", "throttlecrab", "limitador", "ratelimit", "leaky-bucket"];

/// A table of text; the first column is left-aligned, the others right-aligned.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<'a>(heads: impl IntoIterator<Item = &'a str>) -> Table {
        Table { rows: vec![heads.into_iter().map(str::to_owned).collect()] }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(crate) fn print(&self) {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
                if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            println!("  {}", cells.collect::<Vec<_>>().join("   ").trim_end());
        }
    }
}

/// Prints machine and versions.
pub(crate) fn head() {
    machine();
    let peers = PEERS.map(|name| format!("{name} {}", version(name)));
    println!("peers:   {}", peers.join(", "));
}

/// Prints the machine.
pub(crate) fn machine() {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("tollgate-bench {}", env!("CARGO_PKG_VERSION"));
    println!("machine: {cores} cores, {}, load {}", cpu_model(), load());
}

fn cpu_model() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find(|line| line.starts_with("model name"));
    let model = line.and_then(|line| line.split_once(':')).map(|(_, model)| model.trim());
    model.unwrap_or("unknown processor").to_owned()
}

/// Returns the runnable tasks over the last minute: above 1 means that figures are noisy.
fn load() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().filter(|first| !first.is_empty()).unwrap_or("unknown").to_owned()
}

fn version(package: &str) -> &'static str {
    let name = format!("name = \"{package}\"");
    let mut lines = LOCK.lines().skip_while(|line| **line != name).skip(1);
    let line = lines.next().and_then(|line| line.strip_prefix("version = \""));
    line.and_then(|line| line.strip_suffix('"')).unwrap_or("?")
}

/// Formats 1500 as `1.5 k`, 1000000 as `1 M`.
pub(crate) fn count(n: usize) -> String {
    match n {
        1_000_000.. => format!("{} M", n as f64 / 1e6),
        1_000.. => format!("{} k", n as f64 / 1e3),
        _ => n.to_string(),
    }
}

/// Formats a number per second with three digits: `87.6 k`.
pub(crate) fn rate(per_second: f64) -> String {
    let unit = 10_f64.powf(per_second.max(1.0).log10().floor() - 2.0);
    count(((per_second / unit).round() * unit).round() as usize)
}
