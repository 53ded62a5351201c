//! Formats an error and its causes on one line, for the log.

use std::error::Error;

/// The message of `error` and of each of its causes, separated by `: `. Omits a cause whose message is
/// part of the one above it, since many libraries repeat the cause.
pub fn error_report(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut last = line.clone();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !last.contains(&message) {
            line.push_str(": ");
            line.push_str(&message);
            last = message;
        }
        cause = error.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{message}")]
    struct Layer {
        message: &'static str,
        source: io::Error,
    }

    #[test]
    fn causes_follow_their_effects() {
        let error = Layer {
            message: "cannot read tls.crt",
            source: io::Error::other("no such file"),
        };
        assert_eq!(error_report(&error), "cannot read tls.crt: no such file");
    }

    #[test]
    fn a_cause_that_was_told_is_not_told_again() {
        let error = Layer {
            message: "read: no such file",
            source: io::Error::other("no such file"),
        };
        assert_eq!(error_report(&error), "read: no such file");
    }
}
