//! Lua functions that servers run, as libraries of functions and, for servers without functions, as
//! scripts.
//!
//! Names carry a hash of the source, so that nodes of different versions do not call each other's
//! functions. A function is compiled once. A script is run from its first line at every call, so it
//! contains only the algorithms that the call needs.

use std::borrow::Cow;
use std::sync::{LazyLock, OnceLock};

const COMMON: &str = include_str!("lua/common.lua");
const TOGETHER: &str = include_str!("lua/together.lua");
const NODES: &str = include_str!("lua/nodes.lua");
const NOTES: &str = include_str!("lua/notes.lua");

/// A family of algorithms, and the kinds of checks it decides.
pub(crate) struct Family {
    pub(crate) name: &'static str,
    kinds: &'static str,
    source: &'static str,
}

pub(crate) const FAMILIES: [Family; 6] = [
    Family { name: "meter", kinds: "mMv", source: include_str!("lua/meter.lua") },
    Family { name: "fixed_window", kinds: "fc", source: include_str!("lua/fixed_window.lua") },
    Family { name: "sliding_window", kinds: "w", source: include_str!("lua/sliding_window.lua") },
    Family { name: "sliding_log", kinds: "l", source: include_str!("lua/sliding_log.lua") },
    Family { name: "warm_up", kinds: "u", source: include_str!("lua/warm_up.lua") },
    Family { name: "concurrency", kinds: "p", source: include_str!("lua/concurrency.lua") },
];

/// The families that a call needs, one bit each.
pub(crate) type Families = u8;

/// Returns the families that decide checks of this kind.
pub(crate) fn families_of(kind: u8) -> Families {
    let bit =
        |(i, family): (usize, &Family)| u8::from(family.kinds.as_bytes().contains(&kind)) << i;
    FAMILIES.iter().enumerate().map(bit).sum()
}

/// The functions of the counter library.
const COUNTER_FUNCTIONS: [&str; 5] = ["run", "read", "swap", "nodes", "notes"];

/// A Lua function that [`RedisClient::call`](crate::RedisClient::call) runs at a server, which loads
/// it on first use.
#[derive(Debug)]
pub struct ServerFunction {
    /// The registered name of the function.
    pub(crate) name: String,
    /// The source of its library, as `FUNCTION LOAD` takes it.
    pub(crate) library: Cow<'static, str>,
    /// The script that replaces the function where there are none.
    pub(crate) script: String,
    /// The hash by which a server knows the script.
    pub(crate) sha1: String,
}

/// A library of functions whose name carries a hash of its source.
#[derive(Debug)]
struct FunctionLibrary {
    text: String,
    version: String,
}

/// The library that decides on counters.
static COUNTER_LIBRARY: LazyLock<FunctionLibrary> = LazyLock::new(|| {
    let source = format!("{}{NODES}{NOTES}", sources(u8::MAX));
    FunctionLibrary::new(&source, &COUNTER_FUNCTIONS)
});

/// Returns the source that decides checks of these families.
pub(crate) fn sources(families: Families) -> String {
    let wanted = FAMILIES.iter().enumerate().filter(|(i, _)| families >> i & 1 == 1);
    let texts = wanted.map(|(_, family)| format!("do -- {}\n{}end\n", family.name, family.source));
    format!("{COMMON}{}{TOGETHER}", texts.collect::<String>())
}

impl FunctionLibrary {
    fn new(source: &str, functions: &[&str]) -> FunctionLibrary {
        let version = sha1_smol::Sha1::from(source).digest().to_string()[..12].to_owned();
        let mut text = format!("#!lua name=tollgate_{version}\n{source}");
        for function in functions {
            text.push_str(&format!(
                "redis.register_function('tollgate_{version}_{function}', {function})\n"
            ));
        }
        FunctionLibrary { text, version }
    }
}

impl ServerFunction {
    /// Creates a function in a library of its own.
    ///
    /// `source` is Lua that defines `local function <entry>(keys, args)`. It may call `redis.call`
    /// and must not read `KEYS` or `ARGV`, which functions do not have.
    ///
    /// ```
    /// use tollgate_redis::ServerFunction;
    /// let source = "local function bump(keys, args)\n\
    ///               return redis.call('INCRBY', keys[1], args[1])\n\
    ///               end\n";
    /// let bump = ServerFunction::new("bump", source);
    /// ```
    pub fn new(entry: &str, source: &str) -> ServerFunction {
        let FunctionLibrary { text, version } = FunctionLibrary::new(source, &[entry]);
        ServerFunction::in_library(entry, source, text.into(), &version)
    }

    fn in_library(
        entry: &str,
        source: &str,
        library: Cow<'static, str>,
        version: &str,
    ) -> ServerFunction {
        let script = format!("{source}return {entry}(KEYS, ARGV)\n");
        let sha1 = sha1_smol::Sha1::from(&script).digest().to_string();
        ServerFunction { name: format!("tollgate_{version}_{entry}"), library, script, sha1 }
    }

    fn of_counters(entry: &str, source: &str) -> ServerFunction {
        let library = Cow::Borrowed(COUNTER_LIBRARY.text.as_str());
        ServerFunction::in_library(entry, source, library, &COUNTER_LIBRARY.version)
    }

    /// The function that decides checks of these families.
    pub(crate) fn run(families: Families) -> &'static ServerFunction {
        static FUNCTIONS: [OnceLock<ServerFunction>; 1 << FAMILIES.len()] =
            [const { OnceLock::new() }; 1 << FAMILIES.len()];
        let families = families & (FUNCTIONS.len() - 1) as u8;
        FUNCTIONS[usize::from(families)]
            .get_or_init(|| ServerFunction::of_counters("run", &sources(families)))
    }

    /// The function that reads states.
    pub(crate) fn read() -> &'static ServerFunction {
        static FUNCTION: LazyLock<ServerFunction> =
            LazyLock::new(|| ServerFunction::of_counters("read", &sources(0)));
        &FUNCTION
    }

    /// The function that writes states if none of them has changed.
    pub(crate) fn swap() -> &'static ServerFunction {
        static FUNCTION: LazyLock<ServerFunction> =
            LazyLock::new(|| ServerFunction::of_counters("swap", &sources(0)));
        &FUNCTION
    }

    /// The function that registers a node.
    pub(crate) fn nodes() -> &'static ServerFunction {
        static FUNCTION: LazyLock<ServerFunction> =
            LazyLock::new(|| ServerFunction::of_counters("nodes", NODES));
        &FUNCTION
    }

    /// The function that stores and reads shared texts.
    pub(crate) fn notes() -> &'static ServerFunction {
        static FUNCTION: LazyLock<ServerFunction> =
            LazyLock::new(|| ServerFunction::of_counters("notes", NOTES));
        &FUNCTION
    }
}
