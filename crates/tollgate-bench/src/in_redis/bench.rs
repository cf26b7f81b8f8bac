//! What everybody shares: one Redis on a core of its own, the keys, and a thread to ask from.

use std::io::Write;

use tempfile::NamedTempFile;
use tokio::runtime::Runtime;
use tollgate_rig::{Flavour, Redis, Setup};

use crate::workload::Key;
use crate::{cores, places};

/// How many keys there are.
pub(crate) const KEYS: usize = 100_000;

/// Keys of which the commands are counted.
const COUNTED: usize = 2_000;

/// Keys in the order in which they are asked for; also in a file, one a line, for other programs.
pub(crate) struct Keys {
    pub(crate) list: Vec<String>,
    pub(crate) file: NamedTempFile,
}

impl Keys {
    fn new(list: Vec<String>) -> std::io::Result<Keys> {
        let mut file = NamedTempFile::new()?;
        file.write_all(list.join("\n").as_bytes())?;
        Ok(Keys { list, file })
    }
}

pub(crate) struct Bench {
    pub(crate) redis: Redis,
    pub(crate) has_redis_cell: bool,
    pub(crate) runtime: Runtime,
    pub(crate) keys: Keys,
    pub(crate) some: Keys,
}

impl Bench {
    pub(crate) fn start() -> Result<Bench, String> {
        let failed = |error: std::io::Error| error.to_string();
        let mut setup = Setup::new(Flavour::Redis7).core(cores::SERVER);
        let module = places::peers().join("libredis_cell.so");
        let has_redis_cell = module.is_file();
        if has_redis_cell {
            setup = setup.args(["--loadmodule".into(), module.to_string_lossy().into_owned()]);
        } else {
            eprintln!("redis-cell is missing: run `cargo xtask bench redis`, which builds it");
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        // Neighbours in the list are not neighbours by name: a step that has no factor in common
        // with the number of keys visits them all.
        let list: Vec<String> = (0..KEYS).map(|i| String::of(i * 38_177 % KEYS)).collect();
        Ok(Bench {
            redis: setup.start(),
            has_redis_cell,
            runtime: runtime.map_err(failed)?,
            some: Keys::new(list[..COUNTED].to_vec()).map_err(failed)?,
            keys: Keys::new(list).map_err(failed)?,
        })
    }
}
