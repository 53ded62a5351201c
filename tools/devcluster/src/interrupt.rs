//! Ctrl-C and SIGTERM as a flag that waiting loops look at.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// What a shell reports of a process that Ctrl-C ended.
pub(crate) const EXIT_CODE: u8 = 130;

/// The flag that the first signal sets. A second one ends this process at once; the
/// components notice by themselves.
pub(crate) fn flag() -> io::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register_conditional_shutdown(signal, EXIT_CODE.into(), Arc::clone(&interrupted))?;
        flag::register(signal, Arc::clone(&interrupted))?;
    }
    Ok(interrupted)
}
