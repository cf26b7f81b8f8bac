//! Our Lua, as a library of functions and, for servers without functions, as scripts.
//!
//! Names carry a hash of the text, so that nodes of different versions do not call each other's
//! functions. A function is compiled once; a script is run from its first line at every call, so
//! it contains only the algorithms it needs.

use std::sync::{LazyLock, OnceLock};

const COMMON: &str = include_str!("lua/common.lua");
const TOGETHER: &str = include_str!("lua/together.lua");
const NODES: &str = include_str!("lua/nodes.lua");
const NOTES: &str = include_str!("lua/notes.lua");
const DEFERRED: &str = include_str!("lua/deferred.lua");

/// A family of algorithms, and the kinds of checks it serves.
pub(crate) struct Family {
    pub(crate) name: &'static str,
    kinds: &'static str,
    text: &'static str,
}

pub(crate) const FAMILIES: [Family; 6] = [
    Family { name: "meter", kinds: "mM", text: include_str!("lua/meter.lua") },
    Family { name: "fixed_window", kinds: "fc", text: include_str!("lua/fixed_window.lua") },
    Family { name: "sliding_window", kinds: "w", text: include_str!("lua/sliding_window.lua") },
    Family { name: "sliding_log", kinds: "l", text: include_str!("lua/sliding_log.lua") },
    Family { name: "warm_up", kinds: "u", text: include_str!("lua/warm_up.lua") },
    Family { name: "concurrency", kinds: "p", text: include_str!("lua/concurrency.lua") },
];

/// Which families a call needs, one bit each.
pub(crate) type Families = u8;

/// The families whose kind this is.
pub(crate) fn families_of(kind: u8) -> Families {
    let bit =
        |(i, family): (usize, &Family)| u8::from(family.kinds.as_bytes().contains(&kind)) << i;
    FAMILIES.iter().enumerate().map(bit).sum()
}

const TASKS: [&str; 6] = ["run", "read", "swap", "nodes", "notes", "deferred"];

/// Something to be called at a server.
#[derive(Debug)]
pub(crate) struct Script {
    /// The name of the function.
    pub(crate) function: String,
    /// The text of the library it is in, as `FUNCTION LOAD` takes it.
    pub(crate) library: &'static str,
    /// The text of the script, where there are no functions.
    pub(crate) text: String,
    /// The hash by which the server knows the script.
    pub(crate) sha1: String,
}

/// The library with all functions.
#[derive(Debug)]
struct Library {
    text: String,
    version: String,
}

/// The one library there is.
static LIBRARY: LazyLock<Library> =
    LazyLock::new(|| Library::new(&format!("{}{NODES}{NOTES}{DEFERRED}", sources(u8::MAX))));

/// The text of those families.
pub(crate) fn sources(families: Families) -> String {
    let wanted = FAMILIES.iter().enumerate().filter(|(i, _)| families >> i & 1 == 1);
    let texts = wanted.map(|(_, family)| format!("do -- {}\n{}end\n", family.name, family.text));
    format!("{COMMON}{}{TOGETHER}", texts.collect::<String>())
}

impl Library {
    fn new(source: &str) -> Library {
        let version = sha1_smol::Sha1::from(source).digest().to_string()[..12].to_owned();
        let mut text = format!("#!lua name=tollgate_{version}\n{source}");
        for task in TASKS {
            text.push_str(&format!(
                "redis.register_function('tollgate_{version}_{task}', {task})\n"
            ));
        }
        Library { text, version }
    }
}

impl Script {
    fn new(task: &str, families: Families) -> Script {
        Script::of(task, &sources(families))
    }

    fn of(task: &str, sources: &str) -> Script {
        let text = format!("{sources}return {task}(KEYS, ARGV)\n");
        let sha1 = sha1_smol::Sha1::from(&text).digest().to_string();
        let function = format!("tollgate_{}_{task}", LIBRARY.version);
        Script { function, library: &LIBRARY.text, text, sha1 }
    }

    /// Decides checks of those families.
    pub(crate) fn run(families: Families) -> &'static Script {
        static MADE: [OnceLock<Script>; 1 << FAMILIES.len()] =
            [const { OnceLock::new() }; 1 << FAMILIES.len()];
        let families = families & (MADE.len() - 1) as u8;
        MADE[usize::from(families)].get_or_init(|| Script::new("run", families))
    }

    /// Reads states.
    pub(crate) fn read() -> &'static Script {
        static MADE: LazyLock<Script> = LazyLock::new(|| Script::new("read", 0));
        &MADE
    }

    /// Writes states if nothing has changed.
    pub(crate) fn swap() -> &'static Script {
        static MADE: LazyLock<Script> = LazyLock::new(|| Script::new("swap", 0));
        &MADE
    }

    /// Says who is there.
    pub(crate) fn nodes() -> &'static Script {
        static MADE: LazyLock<Script> = LazyLock::new(|| Script::of("nodes", NODES));
        &MADE
    }

    /// Keeps and reads texts.
    pub(crate) fn notes() -> &'static Script {
        static MADE: LazyLock<Script> = LazyLock::new(|| Script::of("notes", NOTES));
        &MADE
    }

    /// Keeps requests for later.
    pub(crate) fn deferred() -> &'static Script {
        static MADE: LazyLock<Script> = LazyLock::new(|| Script::of("deferred", DEFERRED));
        &MADE
    }
}
