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
    Coordinator, Message, Migration, MigrationId, Move, NodeId, Order, Ring, SlotSet, SlotTable, TableStep,
};
use keystead_core::{Code, Error, Result, Stopwatch};
use serde_json::Value;
use tokio::time::sleep;

use super::Operator;
use super::change::read;
use super::peers::Peers;
use super::sizes::{Size, Sizes};
use crate::bounds::{HAND_OVER_TIMEOUT, OPERATOR_INTERVAL, REBALANCE_STALL_TIMEOUT};
use crate::cli::progress::Progress as Shown;
use crate::cluster::Record;
use crate::cluster::migration::call::PATH;
use crate::settings::size::show_bytes;

/// What would move.
pub(super) struct Planned {
    pub(super) moves: Vec<Move>,
    under_way: SlotSet,
    transfers: Vec<(NodeId, NodeId, SlotSet)>,
}

/// What would move between the nodes of a table.
pub(super) fn planned(table: &SlotTable) -> Planned {
    let plan = Ring::of(table.nodes()).plan(table);
    let transfers = plan.transfers().into_iter();
    let transfers = transfers.filter_map(|moved| Some((moved.from?, moved.to?, moved.slots))).collect();
    let under_way = table.migrations().flat_map(|migration| migration.slots.iter()).collect();
    Planned { moves: plan.moves(table), under_way, transfers }
}

impl Planned {
    /// The text for the user, with sizes if they are known.
    pub(super) fn text(&self, sizes: Option<&Sizes>) -> String {
        let mut text = String::new();
        let size_of = |slots: &SlotSet| match sizes.map(|sizes| sizes.of(slots)) {
            Some(Size { keys, bytes, .. }) => format!(": {keys} keys, {}", show_bytes(bytes)),
            None => String::new(),
        };
        for (from, to, slots) in &self.transfers {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {} slots from {from} to {to}{}", slots.len(), size_of(slots));
        }
        if !self.under_way.is_empty() {
            let (slots, size) = (self.under_way.len(), size_of(&self.under_way));
            let _ = writeln!(text, "  {slots} slots are under way{size}");
        }
        if text.is_empty() {
            text.push_str("  nothing to move: every node has its share\n");
        }
        text
    }

    /// Everything that is to be moved.
    fn slots(&self) -> SlotSet {
        let moving = self.moves.iter().flat_map(|moved| moved.slots.iter());
        moving.chain(self.under_way.iter()).collect()
    }
}

/// How far slots have moved.
struct Done {
    slots: usize,
    /// The size of those that have not.
    left: Size,
    /// Keys of these that are at their targets already.
    staged: u64,
}

impl Done {
    /// What is shown of so many slots of this size: a line for each tenth, and beside it, on a terminal, the rate and the remaining time.
    fn text(&self, slots: usize, size: Size, seconds: f64) -> (String, String) {
        let (done, seconds) = (self.slots, seconds.max(0.001));
        let keys = (size.keys - self.left.keys.min(size.keys) + self.staged).min(size.keys);
        // By keys, as slots may be of any size; by slots if there are none.
        let (part, whole) = match size.keys {
            0 => (done as f64, slots as f64),
            all => (keys as f64, all as f64),
        };
        let remaining = match part > 0.0 {
            true => format!("about {:.0} s to go", (whole - part) * seconds / part),
            false => "remaining time not known yet".to_owned(),
        };
        let bytes = (size.bytes as f64 * part / whole.max(1.0) / seconds) as u64;
        let tenth = (done * 10).checked_div(slots).unwrap_or(10);
        let subject = format!("moved {} % of {slots} slots", tenth * 10);
        let rate = format!("{:.0} keys/s, {}/s", keys as f64 / seconds, show_bytes(bytes));
        (subject, format!("({done} in {seconds:.0} s, {rate}, {remaining})"))
    }
}

/// The slots that move.
pub(super) struct Moving<'a> {
    record: &'a Record,
    coordinator: Coordinator,
    peers: Peers<'a>,
    /// Since when a migration is handed over.
    handing_over: BTreeMap<MigrationId, Stopwatch>,
    /// Why migrations wait.
    troubles: BTreeMap<MigrationId, String>,
    /// A node has no room, or has refused a migration for another reason that does not go away: nothing more begins.
    refused: Option<Error>,
    sizes: Sizes,
    /// What is to be moved, and the target of each slot when it has.
    wanted: Vec<Move>,
    shown: Shown,
    took: Stopwatch,
    /// Keys that targets have of what is not theirs yet.
    staged: u64,
    /// At the beginning.
    slots: usize,
    size: Size,
}

impl<'a> Moving<'a> {
    pub(super) async fn new(operator: &'a Operator<'a>, record: &'a Record) -> Result<Moving<'a>> {
        let (table, mut peers) = (read(record).await?, Peers::new(operator));
        let plan = planned(&table);
        let sizes = Sizes::read(&mut peers, &table, &plan.moves).await?;
        crate::cli::print(&plan.text(Some(&sizes)));
        // What is under way is brought to its end all the same.
        let refused = sizes.check(&plan.moves).err();
        let moves = if refused.is_some() { Vec::new() } else { plan.moves.clone() };
        let slots = plan.slots();
        let under_way = table.migrations().map(|Migration { slots, from, to, .. }| Move {
            slots: slots.clone(),
            from: from.clone(),
            to: to.clone(),
        });
        let wanted = under_way.chain(plan.moves.iter().cloned()).collect();
        let (size, slots) = (sizes.of(&slots), slots.len());
        let coordinator = Coordinator::new(Arc::new(table)).with_moves(moves, CONCURRENT_MIGRATIONS);
        Ok(Moving {
            record,
            coordinator,
            peers,
            handing_over: BTreeMap::new(),
            troubles: BTreeMap::new(),
            refused,
            sizes,
            wanted,
            shown: Shown::new(),
            took: Stopwatch::start(),
            staged: 0,
            slots,
            size,
        })
    }

    /// Moves until nothing is left. Interrupted, it says what is left.
    pub(super) async fn run(mut self) -> Result<ExitCode> {
        tokio::select! {
            ended = self.until_moved() => ended?,
            _ = tokio::signal::ctrl_c() => {
                let (left, _) = self.left();
                let (done, under_way) = (self.slots - left.len(), self.coordinator.table().migrations().len());
                self.shown.clear();
                let what = format!("interrupted: {done} of {} slots were moved, {under_way} moves are under way", self.slots);
                return Err(Error::new(Code::Conflict, format!("{what}: continue with keystead cluster rebalance")));
            }
        }
        self.shown.clear();
        let seconds = self.took.elapsed().as_secs_f64();
        let (keys, bytes) = (self.size.keys, show_bytes(self.size.bytes));
        crate::cli::print(&format!(
            "{} slots were moved in {seconds:.1} s, with {keys} keys ({bytes})\n",
            self.slots
        ));
        Ok(ExitCode::SUCCESS)
    }

    async fn until_moved(&mut self) -> Result<()> {
        // The least slots that were left, and the most keys that targets had then.
        let (mut best, mut since_progress) = ((usize::MAX, 0), Stopwatch::start());
        loop {
            if self.coordinator.is_done() {
                if let Some(refused) = self.refused.take() {
                    return Err(refused);
                }
                // What was aborted is planned again.
                let moves = planned(self.coordinator.table()).moves;
                if moves.is_empty() {
                    return Ok(());
                }
                let table = Arc::clone(self.coordinator.table());
                self.coordinator = Coordinator::new(table).with_moves(moves, CONCURRENT_MIGRATIONS);
            }
            let mut orders = self.progress().await;
            self.coordinator.tick(&mut orders);
            self.execute(orders).await;
            self.learn().await;
            let (left, staged) = self.left();
            self.show(&left, staged);
            if left.len() < best.0 || left.len() == best.0 && staged > best.1 {
                (best, since_progress) = ((left.len(), staged), Stopwatch::start());
            }
            if since_progress.elapsed() > REBALANCE_STALL_TIMEOUT {
                let why = self.troubles.values().next().map_or("no node says why", String::as_str);
                let message =
                    format!("{} slots are left, and nothing moves: {why}: run it again later", left.len());
                return Err(Error::new(Code::StoreUnavailable, message));
            }
            sleep(OPERATOR_INTERVAL).await;
        }
    }

    /// The slots that are not where they are to be, and how many keys of them are staged there.
    fn left(&self) -> (SlotSet, u64) {
        let table = self.coordinator.table();
        let is_there = |slot, to: &NodeId| table.owner(slot).is_some_and(|owner| owner.id == *to);
        let left = self.wanted.iter().flat_map(|moved| {
            moved.slots.iter().filter(|slot| !is_there(*slot, &moved.to)).collect::<Vec<u16>>()
        });
        (left.collect(), self.staged)
    }

    fn show(&mut self, left: &SlotSet, staged: u64) {
        let (slots, size) = (self.slots, self.size);
        let done = Done { slots: slots - left.len(), left: self.sizes.of(left), staged };
        let (subject, details) = done.text(slots, size, self.took.elapsed().as_secs_f64());
        self.shown.show(&subject, &details);
    }

    /// What targets say, and what follows from it.
    async fn progress(&mut self) -> Vec<Order> {
        let table = Arc::clone(self.coordinator.table());
        let migrations: Vec<Migration> = table.migrations().cloned().collect();
        let nodes: BTreeSet<NodeId> = migrations.iter().map(|migration| migration.to.clone()).collect();
        let mut orders = Vec::new();
        self.staged = 0;
        for node in nodes {
            match self.peers.call(&table, &node, Method::GET, PATH).await {
                Ok(report) => self.take_report(&report, &mut orders),
                Err(error) => {
                    let of_node = migrations.iter().filter(|migration| migration.to == node);
                    let why = error.message().to_owned();
                    self.troubles.extend(of_node.map(|migration| (migration.id, why.clone())));
                }
            }
        }
        self.troubles.retain(|id, _| table.migration(*id).is_some());
        // A hand over that takes too long is undone: the slots are not served meanwhile. It may have finished all the same.
        self.handing_over.retain(|id, _| table.migration(*id).is_some());
        let is_late = |since: &Stopwatch| since.elapsed() > HAND_OVER_TIMEOUT;
        let late = self.handing_over.iter().filter(|(_, since)| is_late(since)).map(|(id, _)| *id);
        for id in late.collect::<Vec<MigrationId>>() {
            self.coordinator.abort(id, &mut orders);
        }
        orders
    }

    fn take_report(&mut self, report: &Value, orders: &mut Vec<Order>) {
        for reported in report["migrations"].as_array().into_iter().flatten() {
            let Some(id) = reported["id"].as_u64().map(MigrationId) else { continue };
            match reported["trouble"].as_str() {
                Some(why) => {
                    self.troubles.insert(id, why.to_owned());
                    if reported["refused"] == true && self.coordinator.table().migration(id).is_some() {
                        self.refuse(id, &report["node"], why, orders);
                        continue;
                    }
                }
                None => drop(self.troubles.remove(&id)),
            }
            if reported["role"] == "target" && self.coordinator.table().migration(id).is_some() {
                self.staged += reported["keys"].as_u64().unwrap_or(0);
            }
            if let Ok(Some(progress)) =
                serde_json::from_value::<Option<Progress>>(reported["progress"].clone())
            {
                self.coordinator.receive(&Message { id, body: Body::Progress(progress) }, orders);
            }
        }
    }

    /// Aborts a migration that cannot succeed, and begins no other.
    fn refuse(&mut self, id: MigrationId, node: &Value, why: &str, orders: &mut Vec<Order>) {
        if self.refused.is_none() {
            let node = node.as_str().unwrap_or_default();
            let what = format!("a move was refused: node '{node}' says: {why}");
            self.refused = Some(Error::new(Code::StoreUnavailable, what));
            self.coordinator = Coordinator::new(Arc::clone(self.coordinator.table()));
        }
        self.coordinator.abort(id, orders);
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
                    let table = Arc::clone(self.coordinator.table());
                    if let Err(error) = self.peers.call(&table, &node, Method::POST, &path).await {
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
            let _ = self.peers.call(table, &node, Method::POST, &format!("{PATH}/refresh")).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(slots: usize, left: u64, staged: u64, keys: u64, seconds: f64) -> (String, String) {
        let size = |keys: u64| Size { keys, bytes: keys * 1024, ..Size::default() };
        Done { slots, left: size(left), staged }.text(4000, size(keys), seconds)
    }

    #[test]
    fn the_rate_and_the_remaining_time_are_shown() {
        let (subject, details) = text(1000, 750, 50, 1000, 10.0);
        assert_eq!(subject, "moved 20 % of 4000 slots");
        // 250 keys of slots that have moved, and 50 that are there already, in 10 s.
        assert_eq!(details, "(1000 in 10 s, 30 keys/s, 30kb/s, about 23 s to go)");
        let (subject, details) = text(4000, 0, 0, 1000, 20.0);
        assert_eq!(subject, "moved 100 % of 4000 slots");
        assert_eq!(details, "(4000 in 20 s, 50 keys/s, 50kb/s, about 0 s to go)");
    }

    #[test]
    fn without_keys_slots_count_and_nothing_is_guessed_before_something_has_moved() {
        let (_, details) = text(1000, 0, 0, 0, 10.0);
        assert_eq!(details, "(1000 in 10 s, 0 keys/s, 0b/s, about 30 s to go)");
        let (_, details) = text(0, 1000, 0, 1000, 5.0);
        assert_eq!(details, "(0 in 5 s, 0 keys/s, 0b/s, remaining time not known yet)");
    }
}
