//! How this process keeps its memory.

/// Has all threads take their memory from one place, to be called before any other is there. By itself the C library gives a
/// thread a place of its own, of which most stays unused and none goes back: the few threads beside a coding agent held
/// nearly a megabyte so. They seldom ask at the same moment, and small pieces wait in each thread as before.
#[allow(unsafe_code)]
pub fn share() {
    #[cfg(target_env = "gnu")]
    // SAFETY: a setting of the C library, by its own call. If it is refused, memory is kept as before.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}
