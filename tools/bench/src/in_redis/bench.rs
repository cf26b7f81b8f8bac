//! The shared setup: one Redis on a core of its own, the keys, and a runtime for callers.

use std::io::Write;

use tempfile::NamedTempFile;
use tokio::runtime::Runtime;
use tollgate_rig::{Flavour, Redis, Setup};

use crate::workload::Key;
use crate::{cores, programs};

/// The number of keys.
pub(crate) const KEYS: usize = 100_000;

/// The number of keys for which commands are counted.
const COUNTED: usize = 2_000;

/// Keys in the order of use, also in a file, one per line, for other programs.
pub(crate) struct KeyList {
    pub(crate) list: Vec<String>,
    pub(crate) file: NamedTempFile,
}

impl KeyList {
    fn new(list: Vec<String>) -> std::io::Result<KeyList> {
        let mut file = NamedTempFile::new()?;
        file.write_all(list.join("\n").as_bytes())?;
        Ok(KeyList { list, file })
    }
}

pub(crate) struct RedisBench {
    pub(crate) redis: Redis,
    pub(crate) has_redis_cell: bool,
    pub(crate) runtime: Runtime,
    pub(crate) keys: KeyList,
    pub(crate) some: KeyList,
}

impl RedisBench {
    pub(crate) fn start() -> Result<RedisBench, String> {
        let failed = |error: std::io::Error| error.to_string();
        let mut setup = Setup::new(Flavour::Redis7).core(cores::SERVER);
        let module = programs::peers().join("libredis_cell.so");
        let has_redis_cell = module.is_file();
        if has_redis_cell {
            setup = setup.args(["--loadmodule".into(), module.to_string_lossy().into_owned()]);
        } else {
            eprintln!("redis-cell is missing: run `cargo xtask bench redis`, which builds it");
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        // Adjacent keys of the list have distant names: a step without a common factor with the number of
        // keys visits them all.
        let list: Vec<String> = (0..KEYS).map(|i| String::from_index(i * 38_177 % KEYS)).collect();
        Ok(RedisBench {
            redis: setup.start(),
            has_redis_cell,
            runtime: runtime.map_err(failed)?,
            some: KeyList::new(list[..COUNTED].to_vec()).map_err(failed)?,
            keys: KeyList::new(list).map_err(failed)?,
        })
    }
}
