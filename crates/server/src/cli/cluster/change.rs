//! `keystead cluster add`, `remove` and `rebalance`. Touches the store of the table, the nodes, stdout and stderr.

use std::process::ExitCode;
use std::time::Duration;

use hyper::Method;
use keystead_cluster::{ClaimStep, Edit, Move, Node, NodeId, SlotTable, TableError, TableStep};
use keystead_core::{Code, Error, Result, Stopwatch};
use tokio::time::sleep;

use super::peers::Peers;
use super::rebalance::{Moving, planned};
use super::sizes::Sizes;
use super::status::answers;
use super::{Operator, with_record};
use crate::bounds::{CLUSTER_ADD_TIMEOUT, MIGRATION_POLL_INTERVAL};
use crate::cluster::migration::call::{PATH, Peer};
use crate::cluster::{Addresses, Record};
use crate::failure::failure;

/// Adds a node, waits until it answers, and gives it its share. One that is in the table already may get another weight.
pub(super) fn add(operator: &Operator<'_>, node: &Node, weight: Option<u16>) -> Result<ExitCode> {
    with_record(operator.url, async |record| {
        let table = read(record).await?;
        let known = table.node(&node.id).filter(|known| Addresses::of(known) == Addresses::of(node));
        let edit = match (known, weight) {
            (None, weight) => Some(Edit::Add(Node { weight: weight.unwrap_or(node.weight), ..node.clone() })),
            (Some(known), Some(weight)) if known.weight != weight => {
                Some(Edit::Update(Node { weight, ..known.clone() }))
            }
            (Some(_), _) => None,
        };
        if operator.is_dry {
            let next = match edit {
                Some(edit) => edit.apply(Some(&table)).map_err(refused)?,
                None => table,
            };
            return print_plan(operator, record, &next).await;
        }
        if let Some(Edit::Add(node)) = &edit {
            // Of a node of this name that was removed before.
            release_id(record, &node.id).await?;
        }
        if let Some(edit) = edit {
            change(record, edit).await?;
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
        release_id(record, &id).await?;
        crate::cli::print(&format!("node {id} has been removed: it may be stopped\n"));
        Ok(ExitCode::SUCCESS)
    })
}

/// Lets another server, or the same one with another data directory, be a node that does not answer.
pub(super) fn release(operator: &Operator<'_>, name: &str) -> Result<ExitCode> {
    let id = NodeId::new(name).map_err(|error| failure(error, "name a node of the cluster"))?;
    with_record(operator.url, async |record| {
        let table = read(record).await?;
        let node = table.node(&id).ok_or_else(|| refused(TableError::UnknownNode(id.clone())))?;
        if answers(node).await {
            let what = format!("node {id} answers: stop it first, two servers must not be one node");
            return Err(Error::new(Code::Conflict, what));
        }
        release_id(record, &id).await?;
        crate::cli::print(&format!(
            "the next server that is started as node {id} is that node: keys that its data directory does not have are gone\n"
        ));
        Ok(ExitCode::SUCCESS)
    })
}

async fn release_id(record: &Record, id: &NodeId) -> Result<()> {
    // A release is never refused.
    record.claim(id, &ClaimStep::Release).await.map(drop)
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
