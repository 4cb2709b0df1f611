//! `keystead cluster add`, `remove` and `rebalance`. Touches the store of the table, the nodes, stdout and stderr.

use std::process::ExitCode;
use std::time::Duration;

use hyper::Method;
use keystead_cluster::{Edit, Move, Node, NodeId, SlotTable, TableError, TableStep};
use keystead_core::{Code, Error, Result, Stopwatch};
use tokio::time::sleep;

use super::peers::Peers;
use super::rebalance::{Moving, planned};
use super::sizes::Sizes;
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
            return print_plan(operator, record, &joined).await;
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
            return print_plan(operator, record, &table.leave(&id).map_err(refused)?).await;
        }
        if table.node(&id).is_none_or(|node| node.effective_weight() > 0) {
            // Before it is marked as leaving: if the others have no room, nothing has changed.
            let moves = planned(&table.leave(&id).map_err(refused)?).moves;
            Sizes::read(&mut Peers::new(operator), &table, &moves).await?.check(&moves)?;
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
            return print_plan(operator, record, &read(record).await?).await;
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

/// With the sizes of what would move, if the nodes that have it answer.
async fn print_plan(operator: &Operator<'_>, record: &Record, next: &SlotTable) -> Result<ExitCode> {
    let (plan, table) = (planned(next), read(record).await?);
    // A node that is to be added is not there yet.
    let moves = plan.moves.iter().cloned().map(|moved| Move { to: moved.from.clone(), ..moved });
    let sizes = Sizes::read(&mut Peers::new(operator), &table, &moves.collect::<Vec<Move>>()).await;
    crate::cli::print(&plan.text(sizes.as_ref().ok()));
    match sizes {
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            Err(Error::new(error.code(), format!("their sizes are not known: {}", error.message())))
        }
    }
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
