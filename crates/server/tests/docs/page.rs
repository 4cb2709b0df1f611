//! Runs the blocks of one page: a server, and one shell for everything that follows its start. Touches temporary directories
//! and child processes.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use keystead_testkit::server::{Launch, Server};
use keystead_testkit::servers::free_ports;
use libtest_mimic::Failed;
use tempfile::TempDir;

use crate::blocks::{self, Block, Mark};
use crate::{is_installed, output};

const BINARY: &str = env!("CARGO_BIN_EXE_keystead");

/// The longest that the blocks behind one server may take.
const SECONDS_MAX: &str = "120";
/// How long a block that does not end by itself runs.
const STREAM_SECONDS: u32 = 2;

/// Programs that may be missing. Everything else that a block calls must be there.
const OPTIONAL: [&str; 5] = ["redis-cli", "sqlite3", "openssl", "node", "curl"];

/// The Redis that a page assumes: our own RESP listener is one, too.
const UPSTREAM: &str = "--upstream redis://127.0.0.1:6379";

/// Addresses of servers that blocks start in the background. They become free ones, and what is left is stopped in the end.
const OWN_PORTS: &[&str] = &[
    "127.0.0.1:8000",
    "127.0.0.1:8001",
    "127.0.0.1:8002",
    "127.0.0.1:8003",
    "127.0.0.1:6400",
    "127.0.0.1:7001",
    "127.0.0.1:7002",
    "127.0.0.1:7003",
];

/// Begins the line that the shell prints before each block.
const MARKER: &str = "=== block at line";

/// Blocks of a page that run behind one server, which the first of them may start.
#[derive(Default)]
struct Part<'a> {
    server: Option<&'a Block>,
    blocks: Vec<&'a Block>,
}

/// Runs a page and prints how many blocks ran and which did not.
pub(crate) fn run(page: &str) -> Result<(), Failed> {
    let blocks = blocks::read(page);
    let mut skipped = Vec::new();
    let mut parts = vec![Part::default()];
    for block in blocks.iter().filter(|block| can_run(block)) {
        match (&block.mark, missing(block)) {
            (Mark::NotRun(reason), _) => skipped.push(format!("  {page}:{}: {reason}", block.line)),
            (_, Some(program)) => {
                skipped.push(format!("  {page}:{}: {program} is not installed", block.line));
                if std::env::var("REQUIRE").is_ok_and(|required| required == "all") {
                    return Err(format!("{page}:{}: {program} is required and missing", block.line).into());
                }
            }
            (Mark::Server, None) => parts.push(Part { server: Some(block), blocks: Vec::new() }),
            (Mark::None | Mark::Streams, None) => parts.last_mut().unwrap().blocks.push(block),
        }
    }
    let mut ran = 0;
    for part in parts.iter().filter(|part| part.server.is_some() || !part.blocks.is_empty()) {
        run_part(page, part, &settings_file(&blocks))?;
        ran += part.blocks.len() + usize::from(part.server.is_some());
    }
    println!("{page}: {ran} blocks ran, {} were skipped\n{}", skipped.len(), skipped.join("\n"));
    if ran == 0 { Err(format!("no block of {page} ran").into()) } else { Ok(()) }
}

fn can_run(block: &Block) -> bool {
    match block.language.as_str() {
        "sh" => true,
        // A module of others cannot be imported here; its syntax is checked elsewhere.
        "js" => !block.text.contains("import "),
        _ => false,
    }
}

fn missing(block: &Block) -> Option<&'static str> {
    let is_named = |program: &str| match block.language.as_str() {
        "js" => program == "node",
        _ => block.text.split(|c: char| !(c.is_alphanumeric() || c == '-')).any(|word| word == program),
    };
    OPTIONAL.into_iter().find(|program| is_named(program) && !is_installed(program))
}

/// The settings file that the page shows, in one or several blocks.
fn settings_file(blocks: &[Block]) -> String {
    let is_file = |block: &&Block| block.language == "toml" && block.text.starts_with("# keystead.toml");
    blocks.iter().filter(is_file).fold(String::new(), |all, block| all + &block.text + "\n")
}

fn run_part(page: &str, part: &Part<'_>, settings: &str) -> Result<(), Failed> {
    let scratch = tempfile::tempdir()?;
    // The Redis that a page assumes on the usual port.
    let is_in_front = part.server.is_some_and(|block| block.text.contains(UPSTREAM));
    let redis =
        if is_in_front { Some(Launch::new(BINARY).args(["--durability", "memory"]).start()?) } else { None };
    let server = start(part.server, redis.as_ref(), settings, &scratch)?;
    if part.blocks.is_empty() {
        return Ok(());
    }
    let script = script(&part.blocks, &server, scratch.path())?;
    let ended = shell(&server, scratch.path()).arg(&script).output()?;
    let (stdout, stderr) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    let printed: Vec<&str> = stdout.split(MARKER).skip(1).collect();
    if !ended.status.success() {
        let last = part.blocks[printed.len().max(1) - 1];
        let said = printed.last().copied().unwrap_or_default();
        return Err(format!(
            "{page}:{}: the block ended with {}:\n{}\nit printed\n{said}\n{stderr}",
            last.line, ended.status, last.text
        )
        .into());
    }
    for (block, printed) in part.blocks.iter().zip(printed) {
        let printed = printed.split_once('\n').map_or("", |(_, printed)| printed);
        if let Some(shown) = &block.output {
            output::check(shown, printed).map_err(|why| format!("{page}:{}: {why}{stderr}", block.line))?;
        }
    }
    Ok(())
}

/// Starts the server as the page says, on free ports.
fn start(
    block: Option<&Block>,
    redis: Option<&Server>,
    settings: &str,
    scratch: &TempDir,
) -> Result<Server, Failed> {
    let mut launch = match block {
        None => Launch::new(BINARY),
        Some(block) => {
            let text = match redis {
                Some(redis) => block.text.replace(UPSTREAM, &format!("--upstream redis://{}", redis.resp()?)),
                None => block.text.clone(),
            };
            Launch::new("bash").args(["-e", "-c", &on_free_ports(&text)])
        }
    };
    if !settings.is_empty() {
        let file = scratch.path().join("keystead.toml");
        fs::write(&file, settings)?;
        launch = launch.env("KEYSTEAD_CONFIG", file);
    }
    Ok(launch.env("PATH", path(scratch.path())).start()?)
}

/// The command that starts the server: in place of the shell, so that a signal reaches it, and on free ports.
fn on_free_ports(text: &str) -> String {
    let mut command = text.to_owned();
    for host in ["0.0.0.0", "127.0.0.1"] {
        for port in ["8080", "6379", "6380"] {
            command = command.replace(&format!("{host}:{port}"), "127.0.0.1:0");
        }
    }
    let exec = |line: &str| match line.strip_prefix("keystead") {
        Some(arguments) => format!("exec keystead{arguments}\n"),
        None => line.replacen(" keystead ", " exec keystead ", 1) + "\n",
    };
    command.lines().map(exec).collect()
}

/// One script of all blocks, which prints a line before each.
fn script(blocks: &[&Block], server: &Server, scratch: &Path) -> Result<PathBuf, Failed> {
    // Variables are for the processes that a block starts, too.
    let mut script = String::from("set -ea\ntrap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n");
    let addresses = [("127.0.0.1:8080", server.http()), ("127.0.0.1:6379", server.resp())];
    // The ports of the servers that blocks start themselves.
    let free = free_ports(OWN_PORTS.len())?;
    for block in blocks {
        let mut text = block.text.clone();
        for (usual, real) in &addresses {
            if let Ok(real) = real {
                text = text.replace(usual, &real.to_string());
            }
        }
        for (usual, free) in OWN_PORTS.iter().zip(&free) {
            text = text.replace(usual, &format!("127.0.0.1:{free}"));
        }
        writeln!(script, "printf '\\n%s %s\\n' '{MARKER}' {}", block.line)?;
        if block.language == "sh" && block.mark == Mark::None {
            writeln!(script, "{text}")?;
            continue;
        }
        let extension = if block.language == "js" { "mjs" } else { "sh" };
        let file = scratch.join(format!("line-{}.{extension}", block.line));
        fs::write(&file, text)?;
        let file = file.display();
        match block.language.as_str() {
            "js" => writeln!(script, "node {file}")?,
            _ => writeln!(script, "timeout {STREAM_SECONDS} bash -e {file} || [ $? = 124 ]")?,
        }
    }
    let file = scratch.join("blocks.sh");
    fs::write(&file, script)?;
    Ok(file)
}

/// A shell in the server's directory, in which the server's ports are the usual ones.
fn shell(server: &Server, scratch: &Path) -> Command {
    let mut shell = Command::new("timeout");
    for (name, _) in std::env::vars_os().filter(|(n, _)| n.to_string_lossy().starts_with("KEYSTEAD_")) {
        shell.env_remove(name);
    }
    shell.args([SECONDS_MAX, "bash"]).current_dir(server.dir());
    if let Ok(http) = server.http() {
        shell.env("KEYSTEAD_HTTP", http.to_string());
    }
    let settings = scratch.join("keystead.toml");
    if settings.exists() {
        shell.env("KEYSTEAD_CONFIG", settings);
    }
    if let Ok(resp) = server.resp() {
        let file = scratch.join("redis-cli");
        let wrapper = format!(
            "#!/bin/sh\nPATH=${{PATH#{}:}} exec redis-cli -p {} \"$@\"\n",
            scratch.display(),
            resp.port()
        );
        fs::write(&file, wrapper).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    shell.env("PATH", path(scratch));
    shell
}

/// The wrappers, the binary, and everything else.
fn path(scratch: &Path) -> std::ffi::OsString {
    let usual = std::env::var_os("PATH").unwrap_or_default();
    let binary = Path::new(BINARY).parent().unwrap().to_owned();
    std::env::join_paths([scratch.to_owned(), binary].into_iter().chain(std::env::split_paths(&usual)))
        .unwrap()
}
