//! redis-cli and redis-benchmark in their common modes.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};

use keystead_testkit::server::Server;
use libtest_mimic::Failed;

type Tool = (&'static str, fn(&Server) -> Result<(), Failed>);

pub(crate) const TOOLS: [Tool; 3] =
    [("redis-cli::modes", modes), ("redis-cli::pipe", pipe), ("redis-benchmark", benchmark)];

pub(crate) fn are_here() -> bool {
    let runs =
        |name: &str| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
    runs("redis-cli") && runs("redis-benchmark")
}

fn tool(name: &str, server: &Server, args: &[&str], input: &[u8]) -> Result<Output, Failed> {
    let address = server.resp()?;
    let mut child = Command::new(name)
        .args(["-h", &address.ip().to_string(), "-p", &address.port().to_string()])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    child.stdin.take().ok_or("no stdin")?.write_all(input)?;
    Ok(child.wait_with_output()?)
}

fn cli(server: &Server, args: &[&str]) -> Result<String, Failed> {
    let output = tool("redis-cli", server, args, b"")?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn expect(found: &str, wanted: &str) -> Result<(), Failed> {
    if found.contains(wanted) { Ok(()) } else { Err(format!("wanted {wanted:?} in {found:?}").into()) }
}

fn modes(server: &Server) -> Result<(), Failed> {
    expect(&cli(server, &["ping"])?, "PONG")?;
    expect(&cli(server, &["-3", "hset", "h", "f", "v"])?, "1")?;
    expect(&cli(server, &["-3", "--json", "hgetall", "h"])?, r#"{"f":"v"}"#)?;
    expect(&cli(server, &["--csv", "lrange", "nothing", "0", "-1"])?, "")?;
    expect(&cli(server, &["rpush", "list", "a", "b"])?, "2")?;
    expect(&cli(server, &["--csv", "lrange", "list", "0", "-1"])?, r#""a","b""#)?;
    expect(&cli(server, &["--scan", "--pattern", "l*"])?, "list")?;
    expect(&cli(server, &["-r", "3", "incr", "n"])?, "3")?;
    expect(&cli(server, &["--bigkeys"])?, "Biggest")?;
    expect(&cli(server, &["--memkeys"])?, "Biggest")?;
    expect(&cli(server, &["info", "server"])?, "redis_version:")?;
    expect(&cli(server, &["--no-auth-warning", "-a", "none", "ping"])?, "PONG")?;
    let typed = tool("redis-cli", server, &[], b"multi\nset x 1\nincr x\nexec\nhello 3\nhgetall h\n")?;
    let typed = String::from_utf8_lossy(&typed.stdout).into_owned();
    expect(&typed, "QUEUED")?;
    expect(&typed, "OK\n2")?;
    expect(&cli(server, &["-x", "set", "from-stdin"])?, "OK")?;
    // Least, most and average milliseconds, and how many PINGs were measured. How long they took is not asserted.
    let latency = cli(server, &["--latency", "-i", "0.05", "--raw"])?;
    let numbers: Vec<f64> = latency.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    if !matches!(numbers[..], [_, _, _, count] if count >= 1.0) {
        return Err(format!("no latency in {latency:?}").into());
    }
    stat(server)
}

/// `redis-cli --stat` goes on until it is stopped.
fn stat(server: &Server) -> Result<(), Failed> {
    let address = server.resp()?;
    let mut child = Command::new("redis-cli")
        .args(["-h", &address.ip().to_string(), "-p", &address.port().to_string(), "--stat", "-i", "0.05"])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut output = BufReader::new(child.stdout.take().ok_or("no stdout")?);
    let mut said = String::new();
    for _ in 0..3 {
        output.read_line(&mut said)?;
    }
    child.kill()?;
    child.wait()?;
    expect(&said, "keys       mem      clients blocked requests")
}

/// `redis-cli --pipe` sends everything and counts the replies.
fn pipe(server: &Server) -> Result<(), Failed> {
    let mut bytes = Vec::new();
    for n in 0..20_000 {
        let (key, value) = (format!("bulk:{n}"), n.to_string());
        write!(bytes, "*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${}\r\n{value}\r\n", key.len(), value.len())?;
    }
    let output = tool("redis-cli", server, &["--pipe"], &bytes)?;
    let said = String::from_utf8_lossy(&output.stdout);
    expect(&said, "errors: 0, replies: 20000")?;
    expect(&cli(server, &["dbsize"])?, "20000")
}

/// The line that the server prints to try, with the token typed where it asks for one.
pub(crate) fn printed_line(server: &Server, token: &str) -> Result<(), Failed> {
    // It is ready with the first line to try, and this is the second.
    server.wait_for_log("redis-cli ").map_err(|error| error.to_string())?;
    let logs = server.logs();
    let line =
        logs.lines().find_map(|line| line.trim().strip_prefix("try ")?.trim().strip_prefix("redis-cli "));
    let words = line.ok_or("no line to try")?.split(' ');
    let mut child = Command::new("redis-cli")
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    writeln!(child.stdin.take().ok_or("no stdin")?, "{token}")?;
    let output = child.wait_with_output()?;
    expect(&String::from_utf8_lossy(&output.stdout), "PONG")
}

fn benchmark(server: &Server) -> Result<(), Failed> {
    let tests = "ping,set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin,lrange_100,mset";
    for args in [
        &["-t", tests, "-n", "500", "-q"][..],
        &["-t", tests, "-n", "2000", "-P", "16", "-q", "-3"],
        &["-n", "500", "-r", "100", "-q", "xadd", "stream:__rand_int__", "*", "f", "v"],
        &["-t", "set,get", "-n", "500", "--threads", "2", "--csv"],
    ] {
        let output = tool("redis-benchmark", server, args, b"")?;
        let said = String::from_utf8_lossy(&output.stdout).to_lowercase();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() || said.contains("error") || errors.to_lowercase().contains("error") {
            return Err(format!("{args:?}: {said} {errors}").into());
        }
    }
    Ok(())
}
