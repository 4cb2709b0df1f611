//! Who begins, hands over, finishes and aborts migrations. Nothing of it is persistent: the table is its memory, and targets repeat
//! how far they are. So it may crash at any point, be started elsewhere, and run several times at once.
//!
//! It never learns whether a change of the table was made except by reading the table. A change names its migration, and a migration
//! ends one time: an order may be repeated, may arrive late, and may race with its opposite.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::{Body, Message, Progress, Recipient};
use crate::bounds::{CONCURRENT_MIGRATIONS, HAND_OVER_LAG_MAX};
use crate::node::NodeId;
use crate::table::{Edit, Epoch, MigrationId, Move, SlotTable, TableError};

/// What a coordinator wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Make this change of the table with a [`TableStep`](crate::TableStep), planned at this epoch if there is one, then read the
    /// table. Whether it succeeded, was rejected, or nobody knows makes no difference.
    Change(Edit, Option<Epoch>),
    /// Send a message.
    Send(Recipient, Message),
}

/// The coordinator of all migrations of a cluster. See the [module](self).
#[derive(Clone, Debug)]
pub struct Coordinator {
    table: Arc<SlotTable>,
    /// To be begun, in this order.
    queue: VecDeque<Move>,
    /// To be aborted.
    unwanted: BTreeSet<MigrationId>,
    /// How many may be under way.
    concurrent: usize,
}

impl Coordinator {
    /// A coordinator that begins nothing, and brings what is under way to its end.
    #[must_use]
    pub fn new(table: Arc<SlotTable>) -> Coordinator {
        Coordinator {
            table,
            queue: VecDeque::new(),
            unwanted: BTreeSet::new(),
            concurrent: CONCURRENT_MIGRATIONS,
        }
    }

    /// Begins these moves, in this order, so many at a time. To resume after a crash, make a new plan of the current table.
    #[must_use]
    pub fn with_moves(mut self, moves: Vec<Move>, concurrent: usize) -> Coordinator {
        (self.queue, self.concurrent) = (moves.into(), concurrent.max(1));
        self
    }

    /// The table that it has read last.
    #[must_use]
    pub fn table(&self) -> &Arc<SlotTable> {
        &self.table
    }

    /// The migrations that it wants to abort.
    #[must_use]
    pub fn unwanted(&self) -> &BTreeSet<MigrationId> {
        &self.unwanted
    }

    /// How many moves have not begun.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Whether nothing is left to do.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.queue.is_empty() && self.table.migrations().len() == 0
    }

    /// A table was read.
    ///
    /// # Errors
    /// `OtherCluster`, `OlderEpoch`: nothing has changed.
    pub fn learn(&mut self, table: Arc<SlotTable>, out: &mut Vec<Order>) -> Result<(), TableError> {
        self.table.may_be_followed_by(&table)?;
        self.table = table;
        let table = &self.table;
        self.unwanted.retain(|id| table.migration(*id).is_some());
        // What others began, or a repeated order, is not begun again.
        let is_open = |moved: &Move| {
            let is_from = |slot| table.owner(slot).is_some_and(|owner| owner.id == moved.from);
            moved.slots.iter().all(|slot| is_from(slot) && table.migration_of(slot).is_none())
        };
        self.queue.retain(is_open);
        self.begin(out);
        Ok(())
    }

    /// Gives the orders again that have had no effect. Call it regularly.
    pub fn tick(&self, out: &mut Vec<Order>) {
        out.extend(self.unwanted.iter().map(|id| Order::Change(Edit::Abort(*id), None)));
        self.begin(out);
    }

    /// The operator, or a deadline of the hand over, wants a migration aborted. It may finish all the same.
    pub fn abort(&mut self, id: MigrationId, out: &mut Vec<Order>) {
        if self.table.migration(id).is_some() {
            self.unwanted.insert(id);
            out.push(Order::Change(Edit::Abort(id), None));
        }
    }

    /// A message of a target.
    pub fn receive(&mut self, message: &Message, out: &mut Vec<Order>) {
        let (Message { id, body: Body::Progress(progress) }, Some(migration)) =
            (message, self.table.migration(message.id))
        else {
            return;
        };
        match progress {
            Progress::Differs => self.abort(*id, out),
            _ if self.unwanted.contains(id) => {}
            Progress::Ready => out.push(Order::Change(Edit::Finish(*id), None)),
            Progress::Tailing { lag } if *lag <= HAND_OVER_LAG_MAX => {
                let source: NodeId = migration.from.clone();
                out.push(Order::Send(Recipient::Node(source), Message { id: *id, body: Body::HandOver }));
            }
            Progress::Copying | Progress::Tailing { .. } => {}
        }
    }

    fn begin(&self, out: &mut Vec<Order>) {
        let room = self.concurrent.saturating_sub(self.table.migrations().len());
        let moves: Vec<Move> = self.queue.iter().take(room).cloned().collect();
        if !moves.is_empty() {
            out.push(Order::Change(Edit::Begin(moves), Some(self.table.epoch())));
        }
    }
}
