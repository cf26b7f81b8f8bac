//! The `tollgate` program: all of it is in the library, where tests and fuzz targets reach it.

use std::process::ExitCode;

/// An allocator for many threads with small, short-lived objects, as a server has them. Huge pages
/// are off (`no_thp`): with them, ten thousand idle connections take half as much memory again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    tollgate_cli::main()
}
