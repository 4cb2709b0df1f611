//! `keystead cluster status`: epoch, slots per node, and which nodes answer. Touches the store of the table, a connection to each
//! node, and stdout.

use std::fmt::Write;
use std::process::ExitCode;

use keystead_cluster::{Node, SlotTable, TableError};
use keystead_commands::hub::endpoint;
use keystead_core::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::with_record;
use crate::bounds::CLUSTER_PROBE_TIMEOUT;
use crate::cli::EXIT_FAILED;
use crate::stores::StoreName;

pub(super) fn run(url: &StoreName) -> Result<ExitCode> {
    let (table, answers) = with_record(url, async |record| {
        let table = record.read().await?.ok_or(TableError::NoTable)?;
        let answers = answers(&table).await;
        Ok((table, answers))
    })?;
    crate::cli::print(&text(&table, &answers));
    let is_complete = table.ranges().all(|(_, owner)| owner.is_some());
    Ok(match is_complete && answers.iter().all(|answers| *answers) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(EXIT_FAILED),
    })
}

/// Which nodes answer, in their order. All are asked at the same time.
async fn answers(table: &SlotTable) -> Vec<bool> {
    let mut asked = JoinSet::new();
    for (n, node) in table.nodes().iter().cloned().enumerate() {
        asked.spawn(async move {
            (n, timeout(CLUSTER_PROBE_TIMEOUT, ask(&node)).await.is_ok_and(|answer| answer))
        });
    }
    let mut all = vec![false; table.nodes().len()];
    for (n, answers) in asked.join_all().await {
        all[n] = answers;
    }
    all
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

fn text(table: &SlotTable, answers: &[bool]) -> String {
    let mut text = format!("cluster {}, epoch {}\n", table.cluster(), table.epoch());
    let width = table.nodes().iter().map(|node| node.id.as_str().len()).max().unwrap_or(0);
    for (node, answers) in table.nodes().iter().zip(answers) {
        let (id, slots) = (node.id.as_str(), table.slots_owned(&node.id));
        let answers = if *answers { "answers" } else { "does not answer" };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {id:<width$}  {slots:>5} slots  {}  {}  {answers}", node.resp, node.http);
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
