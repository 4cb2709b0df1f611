//! Moves slots until every node has its share: the coordinator of migrations. Touches the store of the table, the nodes, stdout and stderr.
//!
//! Nothing of it is persistent: it may be stopped at any time, run again elsewhere, and run twice at once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;

use hyper::Method;
use keystead_cluster::bounds::CONCURRENT_MIGRATIONS;
use keystead_cluster::migration::{Body, Progress, Recipient};
use keystead_cluster::{
    Coordinator, Message, Migration, MigrationId, Move, NodeId, Order, Ring, SlotTable, TableStep,
};
use keystead_core::{Code, Error, Result, Stopwatch};
use serde_json::Value;
use tokio::time::sleep;

use super::Operator;
use super::change::read;
use crate::bounds::{HAND_OVER_TIMEOUT, OPERATOR_INTERVAL, REBALANCE_STALL_TIMEOUT};
use crate::cli::progress::Progress as Shown;
use crate::cluster::Record;
use crate::cluster::migration::call::{PATH, Peer};

/// What would move, and the text for the user.
pub(super) fn planned(table: &SlotTable) -> (Vec<Move>, String) {
    let plan = Ring::of(table.nodes()).plan(table);
    let mut text = String::new();
    for transfer in plan.transfers() {
        if let (Some(from), Some(to)) = (&transfer.from, &transfer.to) {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {} slots from {from} to {to}", transfer.slots.len());
        }
    }
    let under_way: usize = table.migrations().map(|migration| migration.slots.len()).sum();
    if under_way > 0 {
        let _ = writeln!(text, "  {under_way} slots are under way");
    }
    if text.is_empty() {
        text.push_str("  nothing to move: every node has its share\n");
    }
    (plan.moves(table), text)
}

/// The slots that move.
pub(super) struct Moving<'a> {
    operator: &'a Operator<'a>,
    record: &'a Record,
    coordinator: Coordinator,
    peers: BTreeMap<NodeId, Peer>,
    /// Since when a migration is handed over.
    handing_over: BTreeMap<MigrationId, Stopwatch>,
    /// Why migrations wait.
    troubles: BTreeMap<MigrationId, String>,
    shown: Shown,
    took: Stopwatch,
    /// Slots to move, at the beginning.
    total: usize,
}

impl<'a> Moving<'a> {
    pub(super) async fn new(operator: &'a Operator<'a>, record: &'a Record) -> Result<Moving<'a>> {
        let table = read(record).await?;
        let (moves, text) = planned(&table);
        crate::cli::print(&text);
        let under_way: usize = table.migrations().map(|migration| migration.slots.len()).sum();
        let total = moves.iter().map(|moved| moved.slots.len()).sum::<usize>() + under_way;
        let coordinator = Coordinator::new(Arc::new(table)).with_moves(moves, CONCURRENT_MIGRATIONS);
        Ok(Moving {
            operator,
            record,
            coordinator,
            peers: BTreeMap::new(),
            handing_over: BTreeMap::new(),
            troubles: BTreeMap::new(),
            shown: Shown::new(),
            took: Stopwatch::start(),
            total,
        })
    }

    /// Moves until nothing is left.
    pub(super) async fn run(mut self) -> Result<ExitCode> {
        let (mut least, mut since_progress) = (usize::MAX, Stopwatch::start());
        loop {
            if self.coordinator.is_done() {
                // What was aborted is planned again.
                let (moves, _) = planned(self.coordinator.table());
                if moves.is_empty() {
                    break;
                }
                let table = Arc::clone(self.coordinator.table());
                self.coordinator = Coordinator::new(table).with_moves(moves, CONCURRENT_MIGRATIONS);
            }
            let mut orders = self.progress().await;
            self.coordinator.tick(&mut orders);
            self.execute(orders).await;
            self.learn().await;
            self.show();
            let left = self.left();
            if left < least {
                (least, since_progress) = (left, Stopwatch::start());
            }
            if since_progress.elapsed() > REBALANCE_STALL_TIMEOUT {
                let why = self.troubles.values().next().map_or("no node says why", String::as_str);
                let message = format!("{left} slots are left, and nothing moves: {why}: run it again later");
                return Err(Error::new(Code::StoreUnavailable, message));
            }
            sleep(OPERATOR_INTERVAL).await;
        }
        self.shown.clear();
        let seconds = self.took.elapsed().as_secs_f64();
        crate::cli::print(&format!("{} slots were moved in {seconds:.1} s\n", self.total));
        Ok(ExitCode::SUCCESS)
    }

    fn left(&self) -> usize {
        let table = self.coordinator.table();
        let (moves, _) = planned(table);
        let waiting: usize = moves.iter().map(|moved| moved.slots.len()).sum();
        waiting + table.migrations().map(|migration| migration.slots.len()).sum::<usize>()
    }

    fn show(&mut self) {
        let left = self.left();
        let done = self.total.saturating_sub(left);
        let seconds = self.took.elapsed().as_secs_f64();
        let rate = done as f64 / seconds.max(0.001);
        let remaining = if rate > 0.0 { left as f64 / rate } else { 0.0 };
        // Without a terminal a line for each tenth.
        let tenth = (done * 10).checked_div(self.total).unwrap_or(10);
        let subject = format!("moved {}0 % of {} slots", tenth, self.total);
        self.shown.show(&subject, &format!("({done} in {seconds:.0} s, about {remaining:.0} s to go)"));
    }

    /// What targets say, and what follows from it.
    async fn progress(&mut self) -> Vec<Order> {
        let migrations: Vec<Migration> = self.coordinator.table().migrations().cloned().collect();
        let nodes: BTreeSet<NodeId> = migrations.iter().map(|migration| migration.to.clone()).collect();
        let mut orders = Vec::new();
        for node in nodes {
            match self.call(&node, Method::GET, PATH).await {
                Ok(report) => self.take_report(&report, &mut orders),
                Err(error) => {
                    let of_node = migrations.iter().filter(|migration| migration.to == node);
                    let why = error.message().to_owned();
                    self.troubles.extend(of_node.map(|migration| (migration.id, why.clone())));
                }
            }
        }
        // A hand over that takes too long is undone: the slots are not served meanwhile. It may have finished all the same.
        self.handing_over.retain(|id, _| migrations.iter().any(|migration| migration.id == *id));
        let late: Vec<MigrationId> = self
            .handing_over
            .iter()
            .filter(|(_, since)| since.elapsed() > HAND_OVER_TIMEOUT)
            .map(|(id, _)| *id)
            .collect();
        for id in late {
            self.coordinator.abort(id, &mut orders);
        }
        orders
    }

    fn take_report(&mut self, report: &Value, orders: &mut Vec<Order>) {
        for reported in report["migrations"].as_array().into_iter().flatten() {
            let Some(id) = reported["id"].as_u64().map(MigrationId) else { continue };
            match reported["trouble"].as_str() {
                Some(why) => drop(self.troubles.insert(id, why.to_owned())),
                None => drop(self.troubles.remove(&id)),
            }
            if let Ok(Some(progress)) =
                serde_json::from_value::<Option<Progress>>(reported["progress"].clone())
            {
                self.coordinator.receive(&Message { id, body: Body::Progress(progress) }, orders);
            }
        }
    }

    /// Whether an order had an effect is seen in the table, and in what targets say.
    async fn execute(&mut self, orders: Vec<Order>) {
        for order in orders {
            match order {
                Order::Change(edit, planned_at) => {
                    let step = TableStep::from(edit);
                    let step = match planned_at {
                        Some(epoch) => step.planned_at(epoch),
                        None => step,
                    };
                    if let Ok(Ok(table)) = self.record.change(&step).await {
                        self.refresh(&table).await;
                        let _ = self.coordinator.learn(table, &mut Vec::new());
                    }
                }
                Order::Send(Recipient::Node(node), message) => {
                    let path = format!("{PATH}/migrations/{}/hand-over", message.id.0);
                    self.handing_over.entry(message.id).or_insert_with(Stopwatch::start);
                    if let Err(error) = self.call(&node, Method::POST, &path).await {
                        self.troubles.insert(message.id, error.message().to_owned());
                    }
                }
                Order::Send(Recipient::Coordinator, _) => {}
            }
        }
    }

    async fn learn(&mut self) {
        if let Ok(Some(table)) = self.record.read().await {
            let _ = self.coordinator.learn(Arc::new(table), &mut Vec::new());
        }
    }

    /// Makes the nodes whose slots move, or have moved, read the table now. They would do so by themselves a little later.
    async fn refresh(&mut self, table: &SlotTable) {
        let before = Arc::clone(self.coordinator.table());
        let nodes: BTreeSet<NodeId> = before
            .migrations()
            .chain(table.migrations())
            .filter(|migration| {
                before.migration(migration.id).is_none() || table.migration(migration.id).is_none()
            })
            .flat_map(|migration| [migration.to.clone(), migration.from.clone()])
            .collect();
        for node in nodes {
            let _ = self.call(&node, Method::POST, &format!("{PATH}/refresh")).await;
        }
    }

    async fn call(&mut self, node: &NodeId, method: Method, path: &str) -> Result<Value> {
        let table = self.coordinator.table();
        let Some(known) = table.node(node) else {
            return Err(Error::new(Code::Conflict, format!("node '{node}' is not in the table")));
        };
        let peer = self
            .peers
            .entry(node.clone())
            .or_insert_with(|| Peer::new(known.clone(), table.cluster(), self.operator.token));
        let answered = peer.call(method, path, Vec::new()).await?;
        Ok(serde_json::from_slice(&answered.body).unwrap_or_default())
    }
}
