//! Slots that move between nodes: while clients write, with processes killed at any moment, and what is seen of them meanwhile.

mod client;
mod faults;
mod identity;
mod kills;
mod linear;
mod load;
mod operating;
mod operator;
mod packets;
mod scene;
mod seen;
mod states;
mod stores;
mod watching;

use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use client::Reply;
use keystead_cluster::table::Stored;
use keystead_cluster::{Edit, MigrationId, Move, NodeId, SlotTable, TableError, TableStep};
use keystead_core::{Key, Store, StoreExt};
use keystead_testkit::server::Server;
use keystead_testkit::servers::free_ports;

use crate::{Nodes, addresses, common, node, url};

/// Runs something on the store of a table.
fn with_store<T>(url: &str, run: impl AsyncFnOnce(&Arc<dyn Store>, &Key) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.unwrap().block_on(async {
        let store = keystead_stores::open(url).unwrap();
        let ran = run(&store, &Key::new("keystead:cluster").unwrap()).await;
        store.close().await.unwrap();
        ran
    })
}

/// The table in this store.
fn table_at(url: &str) -> SlotTable {
    with_store(url, async |store, key| store.get::<Stored>(key).await.unwrap().unwrap().table().unwrap())
}

/// Changes the table in this store as an operator would.
fn edit_at(url: &str, edit: Edit) -> Result<Arc<SlotTable>, TableError> {
    with_store(url, async |store, key| store.apply(key, &TableStep::from(edit)).await.unwrap())
}

impl Nodes {
    /// Starts a fourth node, which is not in the table yet, as soon as it is.
    pub(crate) fn add_node(&mut self) -> String {
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
        self.start_node(node(&url(&self.store), "d", &ports), arguments);
        self.ports.extend(ports);
        text
    }

    /// Starts a router of the cluster. Its ports stay the same when it is restarted.
    fn start_router(&self) -> Server {
        let ports = free_ports(2).unwrap();
        let (resp, http) = (format!("127.0.0.1:{}", ports[0]), format!("127.0.0.1:{}", ports[1]));
        let router = common::launch(&["router", "--resp", &resp, "--http", &http]);
        router.env("KEYSTEAD_CLUSTER", url(&self.store)).start().unwrap()
    }

    /// Runs `keystead cluster` to its end.
    pub(crate) fn cluster(&self, arguments: &[&str]) -> common::Ended {
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
        table_at(&self.store.url())
    }

    fn try_edit(&self, edit: Edit) -> Result<Arc<SlotTable>, TableError> {
        edit_at(&self.store.url(), edit)
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
    pub(crate) fn dbsize(&self) -> usize {
        let size = |n| self.resp(n).ask("DBSIZE").strip_prefix(':').unwrap().parse::<usize>().unwrap();
        (0..self.servers.len()).map(size).sum()
    }

    /// The names that a scan of a node finds.
    fn scan(&self, at: usize) -> Vec<String> {
        let (mut client, mut cursor, mut names) = (self.resp(at), "0".to_owned(), Vec::new());
        loop {
            let reply = client.ask(&format!("SCAN {cursor}"));
            let page = reply.strip_prefix('[').and_then(|page| page.strip_suffix("]]"));
            let (next, page) =
                page.and_then(|page| page.split_once(" [")).unwrap_or_else(|| panic!("{reply}"));
            names.extend(page.split(' ').filter(|name| !name.is_empty()).map(str::to_owned));
            cursor = next.to_owned();
            if cursor == "0" {
                return names;
            }
        }
    }

    /// What a node reports of its migrations.
    fn report(&self, at: usize) -> serde_json::Value {
        let report = self.http(at).ask("GET", "/admin/cluster", &["keystead-cluster: test"], b"");
        assert_eq!(report.status, 200, "{}", report.text());
        report.json()
    }
}
