//! `keystead cluster add`, `remove` and `rebalance`. Touches the store of the table, the nodes, stdout and stderr.

use std::process::ExitCode;
use std::time::Duration;

use hyper::Method;
use keystead_cluster::{Edit, Node, NodeId, SlotTable, TableError, TableStep};
use keystead_core::{Code, Error, Result, Stopwatch};
use tokio::time::sleep;

use super::rebalance::{Moving, planned};
use super::{Operator, with_record};
use crate::bounds::{CLUSTER_ADD_TIMEOUT, MIGRATION_POLL_INTERVAL};
use crate::cluster::migration::call::{PATH, Peer};
use crate::cluster::{Addresses, Record};
use crate::failure::failure;

/// Adds a node, waits until it answers, and gives it its share.
pub(super) fn add(operator: &Operator<'_>, node: &Node) -> Result<ExitCode> {
    with_record(operator.url, async |record| {
        let table = read(record).await?;
        let is_known = table.node(&node.id).is_some_and(|known| Addresses::of(known) == Addresses::of(node));
        if operator.is_dry {
            let joined = if is_known { table } else { table.add(node.clone()).map_err(refused)? };
            return print_plan(&joined);
        }
        if !is_known {
            change(record, Edit::Add(node.clone())).await?;
        }
        until_it_answers(operator, &read(record).await?, node).await?;
        Moving::new(operator, record).await?.run().await
    })
}

/// Moves everything of a node away, then removes it.
pub(super) fn remove(operator: &Operator<'_>, name: &str) -> Result<ExitCode> {
    let id = NodeId::new(name).map_err(|error| failure(error, "name a node of the cluster"))?;
    with_record(operator.url, async |record| {
        let table = read(record).await?;
        if operator.is_dry {
            return print_plan(&table.leave(&id).map_err(refused)?);
        }
        if table.node(&id).is_some_and(|node| node.effective_weight() > 0) || table.node(&id).is_none() {
            change(record, Edit::Leave(id.clone())).await?;
        }
        Moving::new(operator, record).await?.run().await?;
        change(record, Edit::Remove(id.clone())).await?;
        crate::cli::print(&format!("node {id} has been removed: it may be stopped\n"));
        Ok(ExitCode::SUCCESS)
    })
}

/// Gives every node its share.
pub(super) fn rebalance(operator: &Operator<'_>) -> Result<ExitCode> {
    with_record(operator.url, async |record| {
        if operator.is_dry {
            return print_plan(&read(record).await?);
        }
        Moving::new(operator, record).await?.run().await
    })
}

pub(super) async fn read(record: &Record) -> Result<SlotTable> {
    Ok(record.read().await?.ok_or(TableError::NoTable)?)
}

async fn change(record: &Record, edit: Edit) -> Result<()> {
    record.change(&TableStep::from(edit)).await?.map(drop).map_err(refused)
}

fn refused(error: TableError) -> Error {
    failure(error, "see keystead cluster status")
}

fn print_plan(table: &SlotTable) -> Result<ExitCode> {
    let (_, text) = planned(table);
    crate::cli::print(&text);
    Ok(ExitCode::SUCCESS)
}

/// A node starts when it is in the table, so it may be started now.
async fn until_it_answers(operator: &Operator<'_>, table: &SlotTable, node: &Node) -> Result<()> {
    let (id, addresses) = (&node.id, Addresses::of(node));
    let mut peer = Peer::new(node.clone(), table.cluster(), operator.token);
    let waited = Stopwatch::start();
    let mut has_printed = false;
    loop {
        let why = match peer.call(Method::GET, PATH, Vec::new()).await {
            Ok(_) => return Ok(()),
            Err(error) => error.message().to_owned(),
        };
        if waited.elapsed() > CLUSTER_ADD_TIMEOUT {
            let what = format!("node {id} is in the table now, and does not answer: {why}");
            let fix = "start it, then run keystead cluster rebalance";
            return Err(Error::new(Code::StoreUnavailable, format!("{what}: {fix}")));
        }
        if !std::mem::replace(&mut has_printed, true) {
            crate::cli::print(&format!(
                "node {id} is in the table. Start it now: keystead serve --cluster URL --node-id {id} --advertise {addresses}\n"
            ));
        }
        sleep(MIGRATION_POLL_INTERVAL.max(Duration::from_millis(1))).await;
    }
}
