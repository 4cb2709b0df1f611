//! `keystead cluster init`: writes the first slot table. Touches the store of the table and stdout.

use std::hash::{BuildHasher, RandomState};
use std::process::ExitCode;

use keystead_cluster::{Edit, Node, NodeId, TableError, TableStep};
use keystead_core::{Error, Result};

use super::with_record;
use crate::cluster::{ADDRESS_FORM, Addresses};
use crate::failure::failure;
use crate::stores::StoreName;

pub(super) fn run(
    url: &StoreName,
    nodes: &[String],
    name: Option<String>,
    if_missing: bool,
) -> Result<ExitCode> {
    let nodes: Vec<Node> = nodes.iter().map(|text| node(text)).collect::<Result<_>>()?;
    if nodes.is_empty() {
        return Err(failure(
            "--node is missing",
            "name each node: --node NAME=redis://HOST:PORT,http://HOST:PORT",
        ));
    }
    let cluster = name.unwrap_or_else(|| format!("keystead-{:016x}", RandomState::new().hash_one(0u8)));
    let step = TableStep::from(Edit::Init { cluster, nodes });
    let table = with_record(url, async |record| record.change(&step).await)?;
    if let (true, Err(error @ TableError::Exists(_))) = (if_missing, &table) {
        crate::cli::print(&format!("{error}: nothing to do\n"));
        return Ok(ExitCode::SUCCESS);
    }
    let table = table.map_err(|error| match error {
        TableError::Exists(_) => Error::from(error),
        error => failure(error, "see keystead cluster --help"),
    })?;
    let mut text = format!("cluster {} has {} nodes:\n", table.cluster(), table.nodes().len());
    for node in table.nodes() {
        let slots = table.slots_owned(&node.id);
        text += &format!("  {}  {slots} slots  {}\n", node.id, Addresses::of(node));
    }
    crate::cli::print(&text);
    Ok(ExitCode::SUCCESS)
}

/// A node from `NAME=ADDRESSES`.
pub(super) fn node(text: &str) -> Result<Node> {
    let bad = |why: &str| failure(format_args!("--node '{text}' {why}"), ADDRESS_FORM);
    let (id, addresses) = text.split_once('=').ok_or_else(|| bad("is not NAME=ADDRESSES"))?;
    let id =
        NodeId::new(id).map_err(|error| failure(format_args!("--node: {error}"), "choose another name"))?;
    let addresses = Addresses::parse(addresses).map_err(|why| bad(&why))?;
    addresses.node(id).map_err(|error| bad(error.message()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_a_name_and_its_addresses() {
        let one = node("a=redis://h:1,http://h:2").unwrap();
        assert_eq!(
            (one.id.as_str(), one.resp.as_str(), one.http.as_str()),
            ("a", "redis://h:1", "http://h:2")
        );
        for bad in ["a", "a=", "=redis://h:1,http://h:2", "a b=redis://h:1,http://h:2", "a=redis://h:1"] {
            assert!(node(bad).is_err(), "{bad}");
        }
    }
}
