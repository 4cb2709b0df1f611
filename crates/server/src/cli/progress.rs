//! Shows on stderr how far a command is: one line that is overwritten on a terminal, a line each where it is not one.

use std::io::{IsTerminal, Write, stderr};

use crate::failure::one_line;

pub(crate) struct Progress {
    on_terminal: bool,
    last: String,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Progress { on_terminal: stderr().is_terminal(), last: String::new() }
    }

    /// Shows what is being done: `subject`, and on a terminal also the details, which change often.
    pub(crate) fn show(&mut self, subject: &str, details: &str) {
        // Without a stderr there is nobody to show it to.
        if self.on_terminal {
            let _ = write!(stderr(), "\r\x1b[K{}", one_line(&format!("{subject} {details}")));
            let _ = stderr().flush();
        } else if self.last != subject {
            let _ = writeln!(stderr(), "keystead: {}", one_line(subject));
            subject.clone_into(&mut self.last);
        }
    }

    /// Removes the line, so that something else can be printed.
    pub(crate) fn clear(&self) {
        if self.on_terminal {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
