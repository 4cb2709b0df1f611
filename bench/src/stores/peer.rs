//! rate-limiter-flexible on Node.js, with its own client libraries, in a process of its own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use keystead_conformance::figures::{Figures, Load};
use keystead_testkit::servers::{Site, postgres};

const SCRIPT: &str = include_str!("peer.cjs");

pub(super) struct Peer {
    folder: PathBuf,
}

impl Peer {
    /// Finds it in `target/peers`, or installs it there.
    pub(super) fn find() -> Result<Peer, String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/peers");
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let modules = ["rate-limiter-flexible", "ioredis", "pg"];
        if !modules.iter().all(|module| folder.join("node_modules").join(module).is_dir()) {
            let mut npm = Command::new("npm");
            npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"]).arg(&folder);
            let output = npm.args(modules).output().map_err(|error| format!("npm: {error}"))?;
            if !output.status.success() {
                return Err(format!("npm: {}", String::from_utf8_lossy(&output.stderr).trim()));
            }
        }
        Ok(Peer { folder })
    }

    pub(super) fn measure(&self, kind: &str, site: &Site, load: Load) -> Result<Figures, String> {
        let mut node = Command::new("node");
        node.args(["-e", SCRIPT, kind, &site.port().to_string(), postgres::PASSWORD]);
        node.args([load.in_flight, load.keys].map(|number| number.to_string()));
        node.arg(load.time.as_millis().to_string()).current_dir(&self.folder);
        let output = node.output().map_err(|error| format!("node: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [per_second, p50, p99, p999] = numbers[..] else {
            return Err(format!("node: {text}{}", String::from_utf8_lossy(&output.stderr)));
        };
        let [p50, p99, p999] = [p50, p99, p999].map(|ms| Duration::from_secs_f64(ms / 1000.0));
        Ok(Figures { per_second, p50, p99, p999 })
    }
}
