//! The worker of `edge/` under workerd, with a D1 database and a Workers KV namespace, on files. Miniflare runs it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use super::{Kind, Site, ask, find_binary, nothing_to_join};
use crate::setup::NotOpened;

/// The token of the worker in tests.
pub const TOKEN: &str = "a-token-of-the-tests";

/// What the worker is made of. `./test` reads the same list.
const SOURCES: &str = include_str!("../../../../edge/sources");

/// The worker. It is not built here, because that needs another target of the compiler: `./test edgebuild` builds it.
pub static EDGE: Kind = ONE;

const ONE: Kind = Kind {
    name: "edge",
    ports: 1,
    find: || {
        built()?;
        find_binary("edge", &["node"], "apt install nodejs")
    },
    prepare: |_, _| Ok(()),
    commands: |binary, site| vec![serve(binary, site)],
    ready: |site| {
        Box::pin(async {
            let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
            ask(site.port(), request).await.starts_with(b"HTTP/1.1 200")
        })
    },
    join: nothing_to_join,
};

/// Many databases in one workerd, each with a host name and settings of its own. A test makes one by a request to the host
/// `databases`: `edge/tests/databases.mjs` has its form.
pub static EDGE_DATABASES: Kind = Kind {
    name: "edge-databases",
    commands: |binary, site| {
        let mut command = serve(binary, site);
        command.arg("databases");
        vec![command]
    },
    ready: |site| {
        Box::pin(async {
            let request = b"POST / HTTP/1.1\r\nhost: databases\r\nconnection: close\r\ncontent-length: 25\r\n\r\n{\"name\":\"\",\"bindings\":{}}";
            ask(site.port(), request).await.starts_with(b"HTTP/1.1 200")
        })
    },
    ..ONE
};

fn serve(binary: &Path, site: &Site) -> Command {
    let mut command = Command::new(binary);
    command.arg(root().join("edge/tests/serve.cjs")).arg(site.port().to_string()).arg(&site.dir);
    command.env("NODE_PATH", root().join("target/peers/node_modules")).env("KEYSTEAD_TOKEN", TOKEN);
    command
}

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap_or(root)
}

/// Whether the worker is built, from the present sources.
fn built() -> Result<(), NotOpened> {
    let root = root();
    let Some(made) = changed(&root.join("edge/build/made-of")) else {
        return Err(NotOpened::missing("the worker is not built (./test edgebuild does it)"));
    };
    let newer = SOURCES.lines().find(|source| newest(&root.join(source)).is_none_or(|at| at > made));
    if let Some(source) = newer {
        return Err(NotOpened::missing(format_args!(
            "the worker was built before {source} was changed (./test edgebuild builds it)"
        )));
    }
    match root.join("target/peers/node_modules/miniflare/package.json").is_file() {
        true => Ok(()),
        false => Err(NotOpened::missing(
            "no miniflare on this machine (npm install --prefix target/peers wrangler)",
        )),
    }
}

fn changed(path: &Path) -> Option<SystemTime> {
    path.metadata().ok()?.modified().ok()
}

/// When a file was last changed, or the last one of a folder.
fn newest(path: &Path) -> Option<SystemTime> {
    if !path.is_dir() {
        return changed(path);
    }
    let entries = std::fs::read_dir(path).ok()?;
    entries.filter_map(|entry| newest(&entry.ok()?.path())).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With one that is missing, a build from older sources would pass as the present one.
    #[test]
    fn the_sources_are_the_crates_that_the_worker_depends_on() {
        let lock = std::fs::read_to_string(root().join("edge/Cargo.lock")).unwrap();
        let of_this_repository = |package: &&str| !package.contains("\nsource = ");
        let names = lock.split("[[package]]").skip(1).filter(of_this_repository).filter_map(|package| {
            let name = package.lines().find_map(|line| line.strip_prefix("name = \""))?;
            name.strip_suffix('"')
        });
        let mut needed: Vec<String> = names
            .map(|name| match name.strip_prefix("keystead-") {
                Some("edge") => "edge/src".to_owned(),
                Some("edge-bundle") => "edge/bundle".to_owned(),
                Some(name) => format!("crates/{name}"),
                None => panic!("{name} is in no folder that is known here"),
            })
            .collect();
        needed.extend(
            ["Cargo.toml", "edge/Cargo.lock", "edge/Cargo.toml", "edge/build.sh", "edge/sources"]
                .map(str::to_owned),
        );
        needed.sort();
        let mut listed: Vec<&str> = SOURCES.lines().collect();
        listed.sort_unstable();
        assert_eq!(listed, needed);
        for source in listed {
            assert!(root().join(source).exists(), "{source}");
        }
    }
}
