//! `keystead cluster status`: epoch, slots per node, which nodes answer, and the moves of slots. Touches the store of the table, connections
//! to each node, and stdout.

use std::fmt::Write;
use std::process::ExitCode;

use hyper::Method;
use keystead_cluster::{Migration, MigrationId, Node, NodeId, SlotTable, TableError};
use keystead_commands::hub::endpoint;
use keystead_core::Result;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{Operator, routers, with_record};
use crate::bounds::CLUSTER_PROBE_TIMEOUT;
use crate::cli::EXIT_FAILED;
use crate::cluster::migration::call::{PATH, Peer};

pub(super) fn run(operator: &Operator<'_>, routers: &[String]) -> Result<ExitCode> {
    let (table, answers, (of_routers, all_route)) = with_record(operator.url, async |record| {
        let table = record.read().await?.ok_or(TableError::NoTable)?;
        let answers = all_answers(&table, operator).await;
        let of_routers = routers::lines(routers, table.cluster(), operator).await?;
        Ok((table, answers, of_routers))
    })?;
    crate::cli::print(&(text(&table, &answers) + &of_routers));
    let is_complete = table.ranges().all(|(_, owner)| owner.is_some());
    Ok(match is_complete && all_route && answers.iter().all(|answer| answer.is_there) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(EXIT_FAILED),
    })
}

/// What a node says.
#[derive(Clone, Default)]
struct Response {
    is_there: bool,
    /// Its report, if it accepts this operator's token.
    report: Option<Value>,
}

/// Which nodes answer, in their order. All are asked at the same time.
async fn all_answers(table: &SlotTable, operator: &Operator<'_>) -> Vec<Response> {
    let mut asked = JoinSet::new();
    for (n, node) in table.nodes().iter().cloned().enumerate() {
        let mut peer = Peer::new(node.clone(), table.cluster(), operator.token);
        asked.spawn(async move {
            let reported = timeout(CLUSTER_PROBE_TIMEOUT, peer.call(Method::GET, PATH, Vec::new()));
            let (is_there, reported) = tokio::join!(answers(&node), reported);
            let report = reported.ok().and_then(Result::ok);
            let report = report.and_then(|answered| serde_json::from_slice(&answered.body).ok());
            (n, Response { is_there, report })
        });
    }
    let mut all = vec![Response::default(); table.nodes().len()];
    for (n, answer) in asked.join_all().await {
        all[n] = answer;
    }
    all
}

/// Whether a node answers in time.
pub(super) async fn answers(node: &Node) -> bool {
    timeout(CLUSTER_PROBE_TIMEOUT, ask(node)).await.is_ok_and(|answer| answer)
}

/// Whether a node answers at its RESP address: a PING, which may be rejected for want of a token. With TLS, whether it accepts connections.
async fn ask(node: &Node) -> bool {
    let Some(address) = endpoint(&node.resp) else { return false };
    let Ok(mut stream) = TcpStream::connect(address).await else { return false };
    if node.resp.starts_with("rediss:") {
        return true;
    }
    let mut reply = [0; 1];
    let asked = stream.write_all(b"*1\r\n$4\r\nPING\r\n").await;
    asked.is_ok() && stream.read_exact(&mut reply).await.is_ok() && matches!(reply[0], b'+' | b'-')
}

fn text(table: &SlotTable, answers: &[Response]) -> String {
    let mut text = format!("cluster {}, epoch {}\n", table.cluster(), table.epoch());
    let width = table.nodes().iter().map(|node| node.id.as_str().len()).max().unwrap_or(0);
    for (node, answer) in table.nodes().iter().zip(answers) {
        let (id, slots) = (node.id.as_str(), table.slots_owned(&node.id));
        let answers = if answer.is_there { "answers" } else { "does not answer" };
        let number = |name: &str| answer.report.as_ref().and_then(|report| report[name].as_u64());
        let redirects = number("redirects").map_or(String::new(), |count| format!(", {count} redirects"));
        let parked = match number("parked") {
            None | Some(0) => String::new(),
            Some(count) => format!(", {count} requests wait"),
        };
        let (resp, http) = (&node.resp, &node.http);
        // Writing to a String cannot fail.
        let _ =
            writeln!(text, "  {id:<width$}  {slots:>5} slots  {resp}  {http}  {answers}{redirects}{parked}");
    }
    let moves = table.migrations();
    if moves.len() > 0 {
        let _ = writeln!(text, "{} moves are under way", moves.len());
    }
    for migration in moves {
        let _ = writeln!(text, "  {}", move_line(table, answers, migration));
    }
    let unowned: usize = table
        .ranges()
        .filter(|(_, owner)| owner.is_none())
        .map(|(range, _)| usize::from(range.last() - range.first()) + 1)
        .sum();
    if unowned > 0 {
        let _ = writeln!(text, "  {unowned} slots have no owner");
    }
    text
}

/// `7: 64 slots from a to d, 1200 keys there, 3 behind`.
fn move_line(table: &SlotTable, answers: &[Response], migration: &Migration) -> String {
    let Migration { id, slots, from, to } = migration;
    let mut line = format!("{}: {} slots from {from} to {to}", id.0, slots.len());
    let Some(row) = row_of(table, answers, to, *id) else { return line + ", not begun" };
    if let Some(keys) = row["keys"].as_u64() {
        let _ = write!(line, ", {keys} keys there");
    }
    match &row["progress"] {
        Value::String(name) => line += &format!(", {}", name.to_lowercase()),
        progress => {
            if let Some(lag) = progress["Tailing"]["lag"].as_u64().filter(|lag| *lag < u64::MAX) {
                let _ = write!(line, ", {lag} behind");
            }
        }
    }
    if row_of(table, answers, from, *id).is_some_and(|row| row["phase"] == "frozen") {
        line += ", handed over";
    }
    if let Some(why) = row["trouble"].as_str() {
        let _ = write!(line, ": {why}");
    }
    line
}

/// What a node says about a migration.
fn row_of<'a>(
    table: &SlotTable,
    answers: &'a [Response],
    node: &NodeId,
    id: MigrationId,
) -> Option<&'a Value> {
    let at = table.nodes().iter().position(|known| known.id == *node)?;
    let rows = answers.get(at)?.report.as_ref()?["migrations"].as_array()?;
    rows.iter().find(|row| row["id"].as_u64() == Some(id.0))
}
