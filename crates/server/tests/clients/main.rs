//! Client libraries against the real server: ioredis, node-redis, redis-py, redis-rs, Redis's own tools, and Upstash's SDKs.
//!
//! A script gets the server's URL as its argument, those of Upstash's SDKs in the environment variables that the SDKs read. It
//! checks what a program would do with its library, and ends with `ok`. A library that is not installed is skipped with the reason,
//! unless `REQUIRE=` names it; `./test` installs all of them.

#![allow(
    clippy::unwrap_used,
    reason = "all of this is test code, which the harness-free main hides from clippy"
)]

#[path = "../common/peers.rs"]
mod peers;
mod rust;
mod tools;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use keystead_testkit::server::{Launch, Server};
use keystead_testkit::servers::{OwnServer, redis};
use libtest_mimic::{Arguments, Failed, Trial};
use peers::{peers, trial};

/// A library: its name, how it is run, and how to find out that it is installed.
struct Library {
    name: &'static str,
    script: &'static str,
    runner: fn() -> PathBuf,
    installed: fn() -> PathBuf,
    hint: &'static str,
    /// Shards of the server.
    shards: &'static str,
    /// Whether the REST API is in front of a Redis.
    upstream: Option<Upstream>,
}

/// A Redis that the REST API is in front of: the cases that are known to differ there.
struct Upstream {
    different: &'static str,
}

const LIBRARIES: [Library; 14] = [
    Library {
        name: "ioredis",
        script: "ioredis.cjs",
        runner: || "node".into(),
        installed: || peers().join("node_modules/ioredis/package.json"),
        hint: "ioredis is not installed (npm install --prefix target/peers ioredis)",
        shards: "1",
        upstream: None,
    },
    Library {
        name: "node-redis",
        script: "node_redis.cjs",
        runner: || "node".into(),
        installed: || peers().join("node_modules/redis/package.json"),
        hint: "node-redis is not installed (npm install --prefix target/peers redis)",
        shards: "1",
        upstream: None,
    },
    Library {
        name: "redis-py",
        script: "redis_py.py",
        runner: || peers().join("bin/python3"),
        installed: || peers().join("bin/redis-py-is-here"),
        hint: "redis-py is not installed (pip install redis into target/peers)",
        shards: "1",
        upstream: None,
    },
    Library {
        name: "upstash-redis-js",
        script: "upstash_redis.cjs",
        runner: || "node".into(),
        installed: || peers().join("node_modules/@upstash/redis/package.json"),
        hint: NO_UPSTASH_JS,
        shards: "1",
        upstream: None,
    },
    Library {
        name: "upstash-redis-js-commands",
        script: "upstash_commands.cjs",
        runner: || "node".into(),
        installed: || peers().join("node_modules/@upstash/redis/package.json"),
        hint: NO_UPSTASH_JS,
        shards: "1",
        upstream: None,
    },
    Library {
        name: "upstash-ratelimit-js",
        script: "upstash_ratelimit.cjs",
        runner: || "node".into(),
        installed: || peers().join("node_modules/@upstash/ratelimit/package.json"),
        hint: NO_UPSTASH_JS,
        shards: "1",
        upstream: None,
    },
    Library {
        name: "upstash-ratelimit-js-4-shards",
        script: "upstash_ratelimit.cjs",
        runner: || "node".into(),
        installed: || peers().join("node_modules/@upstash/ratelimit/package.json"),
        hint: NO_UPSTASH_JS,
        shards: "4",
        upstream: None,
    },
    Library {
        name: "upstash-redis-js-upstream",
        script: "upstash_redis.cjs",
        runner: || "node".into(),
        installed: || peers().join("node_modules/@upstash/redis/package.json"),
        hint: NO_UPSTASH_JS,
        shards: "1",
        upstream: Some(Upstream { different: "" }),
    },
    Library {
        name: "upstash-redis-js-commands-upstream",
        script: "upstash_commands.cjs",
        runner: || "node".into(),
        installed: || peers().join("node_modules/@upstash/redis/package.json"),
        hint: NO_UPSTASH_JS,
        shards: "1",
        // Redis has no `SCAN ... WITHTYPE`. BITFIELD_RO of no operations, expiring fields, XACKDEL and JSON depend on the version and
        // the modules of the Redis that is installed.
        upstream: Some(Upstream { different: "keys;bits;hashes;streams;json;every method was called" }),
    },
    Library {
        name: "upstash-ratelimit-js-upstream",
        script: "upstash_ratelimit.cjs",
        runner: || "node".into(),
        installed: || peers().join("node_modules/@upstash/ratelimit/package.json"),
        hint: NO_UPSTASH_JS,
        shards: "1",
        upstream: Some(Upstream { different: "" }),
    },
    Library {
        name: "upstash-redis-py",
        script: "upstash_redis_py.py",
        runner: || peers().join("bin/python3"),
        installed: || peers().join("bin/upstash-is-here"),
        hint: NO_UPSTASH_PY,
        shards: "1",
        upstream: None,
    },
    Library {
        name: "upstash-ratelimit-py",
        script: "upstash_ratelimit_py.py",
        runner: || peers().join("bin/python3"),
        installed: || peers().join("bin/upstash-is-here"),
        hint: NO_UPSTASH_PY,
        shards: "1",
        upstream: None,
    },
    Library {
        name: "upstash-redis-py-upstream",
        script: "upstash_redis_py.py",
        runner: || peers().join("bin/python3"),
        installed: || peers().join("bin/upstash-is-here"),
        hint: NO_UPSTASH_PY,
        shards: "1",
        upstream: Some(Upstream { different: "strings;hashes;sorted_sets;streams;json" }),
    },
    Library {
        name: "upstash-ratelimit-py-upstream",
        script: "upstash_ratelimit_py.py",
        runner: || peers().join("bin/python3"),
        installed: || peers().join("bin/upstash-is-here"),
        hint: NO_UPSTASH_PY,
        shards: "1",
        upstream: Some(Upstream { different: "" }),
    },
];

const NO_UPSTASH_JS: &str =
    "Upstash's SDKs are not installed (npm install --prefix target/peers @upstash/redis @upstash/ratelimit)";
const NO_REDIS: &str = "redis-server is not installed (apt-get install redis-server)";
const NO_UPSTASH_PY: &str =
    "Upstash's SDKs are not installed (pip install upstash-redis upstash-ratelimit into target/peers)";

/// What Upstash's SDKs bring. The other libraries of this test speak RESP, where none is asked for.
const TOKEN: &str = "s3cret";
const READ_ONLY_TOKEN: &str = "look";

fn main() -> ExitCode {
    let mut trials = vec![Trial::test("redis-rs", || rust::run(&start()))];
    for library in LIBRARIES {
        let no_library = (!(library.installed)().is_file()).then_some(library.hint);
        let no_redis = library.upstream.is_some() && (redis::REDIS.find)().is_err();
        let missing = no_library.or(no_redis.then_some(NO_REDIS));
        trials.push(trial(library.name, missing, move || run_script(&library)));
    }
    let no_tools = (!tools::are_here()).then_some("redis-cli is not installed (apt-get install redis-tools)");
    for (name, run) in tools::TOOLS {
        trials.push(trial(name, no_tools, move || run(&start())));
    }
    trials.push(trial("redis-cli::printed-line", no_tools, || {
        tools::printed_line(&start(), "")?;
        tools::printed_line(&start_for_rest("1", None), TOKEN)
    }));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn start() -> Server {
    Launch::new(env!("CARGO_BIN_EXE_keystead")).args(["--durability", "commit"]).start().unwrap()
}

fn start_for_rest(shards: &str, upstream: Option<&str>) -> Server {
    let launch = Launch::new(env!("CARGO_BIN_EXE_keystead"));
    let launch = match upstream {
        Some(url) => launch.env("KEYSTEAD_UPSTREAM", url),
        None => launch,
    };
    launch
        .args(["--durability", "commit", "--token", TOKEN, "--read-only-token", READ_ONLY_TOKEN])
        .args(["--shards", shards])
        .start()
        .unwrap()
}

fn run_script(library: &Library) -> Result<(), Failed> {
    let is_upstash = library.name.starts_with("upstash-");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let redis = match library.upstream {
        Some(_) => Some(runtime.block_on(OwnServer::start(&redis::REDIS)).map_err(|e| e.to_string())?),
        None => None,
    };
    let upstream = redis.as_ref().map(|redis| format!("redis://{}", redis.site().addresses()));
    let server = if is_upstash { start_for_rest(library.shards, upstream.as_deref()) } else { start() };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(library.script);
    let output = Command::new((library.runner)())
        .arg(script)
        .arg(format!("redis://{}", server.resp()?))
        .env("NODE_PATH", peers().join("node_modules"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("UPSTASH_REDIS_REST_URL", server.url(""))
        .env("UPSTASH_REDIS_REST_TOKEN", TOKEN)
        .env("READ_ONLY_TOKEN", READ_ONLY_TOKEN)
        .env("SHARDS", library.shards)
        .env("DIFFERENT", library.upstream.as_ref().map_or("", |upstream| upstream.different))
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.success() && said.trim_end().ends_with("ok") {
        return Ok(());
    }
    Err(Failed::from(format!("{}\n{said}\n{}", output.status, String::from_utf8_lossy(&output.stderr))))
}
