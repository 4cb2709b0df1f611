//! Slots that move between nodes: while clients write, with processes killed at any moment, and what is seen of them meanwhile.

mod client;
mod faults;
mod identity;
mod kills;
mod linear;
mod load;
mod operating;
mod operator;
mod seen;
mod states;
mod stores;
mod watching;

use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use client::Reply;
use keystead_cluster::table::Stored;
use keystead_cluster::{Edit, MigrationId, Move, NodeId, SlotTable, TableError, TableStep};
use keystead_core::{Key, StoreExt};
use keystead_testkit::servers::free_ports;

use crate::{Nodes, addresses, common, node, url};

impl Nodes {
    /// Starts a fourth node, which is not in the table yet, as soon as it is.
    fn add_node(&mut self) -> String {
        self.add_node_with(&[])
    }

    fn add_node_with(&mut self, arguments: &[&str]) -> String {
        let ports = free_ports(2).unwrap();
        let text = format!("d={}", addresses(&ports));
        let (code, _, stderr) = self.cluster(&["add", &text, "--dry-run"]);
        assert_eq!(code, 0, "{stderr}");
        self.edit(Edit::Add(keystead_cluster::Node::new(
            NodeId::new("d").unwrap(),
            format!("redis://127.0.0.1:{}", ports[0]),
            format!("http://127.0.0.1:{}", ports[1]),
        )));
        let launch = node(&url(&self.store), "d", &ports).args(arguments.iter().copied());
        self.servers.push(launch.start().unwrap());
        self.ports.extend(ports);
        text
    }

    /// Runs `keystead cluster` to its end.
    fn cluster(&self, arguments: &[&str]) -> common::Ended {
        // It ends by itself when nothing moves, so it needs no deadline.
        let output = self.command(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    /// Begins `keystead cluster`, which may be killed.
    fn begin_cluster(&self, arguments: &[&str]) -> Child {
        self.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_keystead"));
        command.arg("cluster").args(arguments).env("KEYSTEAD_CLUSTER", url(&self.store)).stdin(Stdio::null());
        command
    }

    /// Changes the table as an operator would.
    fn edit(&self, edit: Edit) -> Arc<SlotTable> {
        self.try_edit(edit).unwrap()
    }

    /// The table as the store has it.
    fn table(&self) -> SlotTable {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        runtime.unwrap().block_on(async {
            let store = keystead_stores::open(&url(&self.store)).unwrap();
            let stored = store.get::<Stored>(&Key::new("keystead:cluster").unwrap()).await.unwrap().unwrap();
            store.close().await.unwrap();
            stored.table().unwrap()
        })
    }

    fn try_edit(&self, edit: Edit) -> Result<Arc<SlotTable>, TableError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        runtime.unwrap().block_on(async {
            let store = keystead_stores::open(&url(&self.store)).unwrap();
            let key = Key::new("keystead:cluster").unwrap();
            let table = store.apply(&key, &TableStep::from(edit)).await.unwrap();
            store.close().await.unwrap();
            table
        })
    }

    /// Begins to move a slot, without an operator who would hand it over.
    fn begin_move(&self, moved: u16, from: &str, to: &str) -> MigrationId {
        self.begin_moves([moved], from, to)
    }

    fn begin_moves(&self, moved: impl IntoIterator<Item = u16>, from: &str, to: &str) -> MigrationId {
        let id = |name| NodeId::new(name).unwrap();
        let slots = moved.into_iter().collect();
        let table = self.edit(Edit::Begin(vec![Move { slots, from: id(from), to: id(to) }]));
        table.migrations().map(|migration| migration.id).max().unwrap()
    }

    /// What a node reports of a migration.
    fn row(&self, at: usize, id: MigrationId) -> serde_json::Value {
        let report = self.report(at);
        let rows = report["migrations"].as_array().unwrap();
        rows.iter().find(|row| row["id"] == id.0).cloned().unwrap_or_default()
    }

    fn hand_over(&self, source: usize, id: MigrationId) {
        let path = format!("/admin/cluster/migrations/{}/hand-over", id.0);
        let handed = self.http(source).ask("POST", &path, &["keystead-cluster: test"], b"");
        assert_eq!(handed.status, 200, "{}", handed.text());
    }

    /// Waits until no node has anything to do with a migration.
    #[track_caller]
    fn until_settled(&self) {
        crate::resp::until("all nodes have cleaned up", || {
            (0..self.servers.len()).all(|at| self.report(at)["migrations"].as_array().unwrap().is_empty())
        });
    }

    fn resp_ports(&self) -> Vec<u16> {
        self.ports.iter().step_by(2).copied().collect()
    }

    /// The keys of all nodes together.
    fn dbsize(&self) -> usize {
        let size = |n| self.resp(n).ask("DBSIZE").strip_prefix(':').unwrap().parse::<usize>().unwrap();
        (0..self.servers.len()).map(size).sum()
    }

    /// What a node reports of its migrations.
    fn report(&self, at: usize) -> serde_json::Value {
        self.http(at).ask("GET", "/admin/cluster", &["keystead-cluster: test"], b"").json()
    }
}
