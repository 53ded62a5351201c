//! Ctrl-C and SIGTERM as a flag for waiting loops.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// The exit code that a shell reports for a process ended by Ctrl-C.
pub const INTERRUPTED: u8 = 130;

/// Returns the flag that the first signal sets. A second signal exits this process at once; the
/// components then exit by themselves.
///
/// # Errors
/// A signal cannot be handled.
pub fn interrupt_flag() -> io::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register_conditional_shutdown(signal, INTERRUPTED.into(), Arc::clone(&interrupted))?;
        flag::register(signal, Arc::clone(&interrupted))?;
    }
    Ok(interrupted)
}
