//! The allocator of the process: jemalloc, which is Redis's too. Touches the memory of the process.
//!
//! It wastes less on small values than that of the C library, and it returns what is not in use to the system, also what many
//! threads have left between values that stay ([ADR 0015](../../../docs/adr/0015-memory.md)).

use tikv_jemalloc_ctl::{Access, AsName, arenas, background_thread};

pub use tikv_jemallocator::Jemalloc;

/// Starts the thread that returns memory to the system about ten seconds after it was freed: otherwise a thread that allocates or
/// frees does it in passing, and an idle one never.
pub fn start_returning() {
    if let Err(error) = background_thread::write(true) {
        tracing::warn!(%error, "memory that is freed is returned to the system late");
    }
}

/// Returns all memory that is not in use to the system. False if the allocator reports an error.
#[must_use]
pub fn purge() -> bool {
    let Ok(arenas) = arenas::narenas::read() else { return false };
    (0..arenas).all(|arena| {
        ["dirty", "muzzy"].iter().all(|pages| {
            let name = format!("arena.{arena}.{pages}_decay_ms\0");
            let decay_ms = name.as_str().name();
            // An arena that no thread has used yet has no such value. A delay of 0 returns everything at once.
            let Ok(before): Result<isize, _> = decay_ms.read() else { return true };
            decay_ms.write(0isize).and_then(|()| decay_ms.write(before)).is_ok()
        })
    })
}
