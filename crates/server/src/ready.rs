//! The ready block: what a started server prints on stdout. Pure.
//!
//! People read it, and test harnesses wait for it and take the address from it: a line is two spaces, a
//! name, and a value from column 15 on. Names are added, never changed.

use std::fmt::Write;
use std::net::SocketAddr;

use crate::VERSION;
use crate::listen::reachable;
use crate::settings::{Durability, Settings};

/// The block of a server whose HTTP door listens at `http`.
#[must_use]
pub fn block(settings: &Settings, http: SocketAddr) -> String {
    let mut text = format!("keystead {VERSION} is ready\n");
    let mut line = |name: &str, value: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {name:<10}  {value}");
    };
    line("http", &format!("http://{http}"));
    match settings.durability {
        Durability::Memory => line("data", "in memory only, gone when the server stops"),
        Durability::Fsync | Durability::Commit => line("data", &settings.data.display().to_string()),
    }
    line("durability", settings.durability.as_str());
    line("try", &format!("curl -s http://{}/healthz", reachable(http)));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Loaded, Sources};

    fn settings() -> Settings {
        Loaded::from_sources(Sources::default()).unwrap().settings
    }

    #[test]
    fn the_block_is_short_and_stable() {
        let expected = format!(
            "keystead {VERSION} is ready\n  \
               http        http://127.0.0.1:8080\n  \
               data        ./keystead-data\n  \
               durability  fsync\n  \
               try         curl -s http://127.0.0.1:8080/healthz\n"
        );
        assert_eq!(block(&settings(), "127.0.0.1:8080".parse().unwrap()), expected);
    }

    #[test]
    fn memory_warns_that_nothing_is_kept() {
        let block = block(
            &Settings { durability: Durability::Memory, ..settings() },
            "127.0.0.1:8080".parse().unwrap(),
        );
        assert!(block.contains("\n  data        in memory only, gone when the server stops\n"), "{block}");
    }

    #[test]
    fn the_line_to_try_is_one_that_works() {
        let block_v4 = block(&settings(), "0.0.0.0:9".parse().unwrap());
        assert!(block_v4.contains("http://0.0.0.0:9\n") && block_v4.contains("curl -s http://127.0.0.1:9/"));
        assert!(block(&settings(), "[::]:9".parse().unwrap()).contains("curl -s http://[::1]:9/healthz"));
    }
}
