//! The nodes of `--nodes`: names, addresses, and the slot table that follows from them. Pure.
//!
//! Invariant: the same nodes result in the same table, in whichever order they are listed, on every router.

use keystead_cluster::{Node, NodeId, SlotTable, TableError};
use keystead_core::{Code, Error, Result};

use crate::bounds::ROUTER_NODES_MAX;
use crate::settings::Listen;
use crate::settings::value::InvalidValue;

const FIX: &str = "write the nodes' HTTP addresses, for example http://10.0.0.1:8080,http://10.0.0.2:8080, or NAME=http://10.0.0.1:8080";

/// The name of the table, which no other process sees.
const CLUSTER: &str = "static";

/// The nodes of a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeList(Vec<Listed>);

/// One node of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    /// Its name, by which slots are given out.
    pub(super) id: NodeId,
    /// A name, an IPv4 or an IPv6 address.
    pub(super) host: String,
    pub(super) port: u16,
}

impl Listed {
    /// Its address as URLs have it.
    pub(super) fn authority(&self) -> String {
        Listen::At { host: self.host.clone(), port: self.port }.to_string()
    }
}

impl NodeList {
    /// Parses `http://HOST:PORT` or `NAME=http://HOST:PORT`, separated by commas.
    pub(crate) fn parse(text: &str) -> std::result::Result<NodeList, InvalidValue> {
        let nodes: Vec<Listed> =
            text.split(',').map(|url| one(url.trim())).collect::<std::result::Result<_, _>>()?;
        if nodes.len() > ROUTER_NODES_MAX {
            return Err(InvalidValue::new(format!("has more than {ROUTER_NODES_MAX} nodes"), "list fewer"));
        }
        for (n, node) in nodes.iter().enumerate() {
            if nodes[..n].iter().any(|other| other.authority() == node.authority()) {
                let why = format!("lists {} twice", node.authority());
                return Err(InvalidValue::new(why, "list each node once"));
            }
            if nodes[..n].iter().any(|other| other.id == node.id) {
                let why = format!("has two nodes of the name '{}'", node.id);
                return Err(InvalidValue::new(
                    why,
                    "give each node a name of its own: NAME=http://HOST:PORT",
                ));
            }
        }
        Ok(NodeList(nodes))
    }

    pub(super) fn nodes(&self) -> &[Listed] {
        &self.0
    }

    /// For each slot, the index of its owner in the list.
    ///
    /// # Errors
    /// `config_invalid` when there is no such table.
    pub(super) fn owners(&self) -> Result<Box<[usize]>> {
        let node = |listed: &Listed| {
            let authority = listed.authority();
            // The table wants both addresses. The router uses its own list.
            Node::new(listed.id.clone(), format!("redis://{authority}"), format!("http://{authority}"))
        };
        let invalid = |error: TableError| Error::new(Code::ConfigInvalid, format!("--nodes: {error}"));
        let table = SlotTable::init(CLUSTER, self.0.iter().map(node).collect()).map_err(invalid)?;
        let unowned = || Error::new(Code::Internal, "a slot has no owner");
        (0..keystead_cluster::bounds::SLOTS)
            .map(|slot| {
                let owner = table.owner(slot).ok_or_else(unowned)?;
                self.0.iter().position(|listed| listed.id == owner.id).ok_or_else(unowned)
            })
            .collect()
    }
}

fn one(text: &str) -> std::result::Result<Listed, InvalidValue> {
    let invalid = |why: String| InvalidValue::new(why, FIX);
    if text.is_empty() {
        return Err(invalid("has an empty entry".to_owned()));
    }
    let (name, url) = match text.split_once('=') {
        Some((name, url)) if !name.contains(':') => (Some(name), url),
        _ => (None, text),
    };
    let Some(address) = url.strip_prefix("http://") else {
        let why = match url.split_once("://") {
            Some(("https", _)) => format!("names '{url}', and a router reaches its nodes without TLS"),
            _ => format!("names '{url}', which does not begin with http://"),
        };
        return Err(invalid(why));
    };
    let address = address.strip_suffix('/').unwrap_or(address);
    if address.contains(['/', '?', '#', '@']) {
        return Err(invalid(format!("names '{url}', which is more than an address")));
    }
    let (host, port) = match Listen::parse(address) {
        Ok(Listen::At { host, port }) if port != 0 => (host, port),
        Ok(_) => return Err(invalid(format!("names '{url}', which has no port"))),
        Err(error) => return Err(invalid(format!("names '{url}', which {}", error.why))),
    };
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') { c } else { '-' };
    let default = || format!("{}-{port}", host.chars().map(plain).collect::<String>());
    let name = name.map_or_else(default, str::to_owned);
    let id = NodeId::new(&name).map_err(|error| {
        InvalidValue::new(
            format!("has an invalid name: {error}"),
            "write NAME=http://HOST:PORT with a short NAME of letters, digits, '.', '_' or '-'",
        )
    })?;
    Ok(Listed { id, host, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> NodeList {
        NodeList::parse(text).unwrap()
    }

    #[test]
    fn nodes_have_names_and_addresses() {
        let nodes = list("http://127.0.0.1:81/, b=http://node-2:82,http://[::1]:83");
        let shown: Vec<_> =
            nodes.nodes().iter().map(|node| format!("{}={}", node.id, node.authority())).collect();
        assert_eq!(shown, ["127.0.0.1-81=127.0.0.1:81", "b=node-2:82", "--1-83=[::1]:83"]);
    }

    #[test]
    fn what_is_no_list_of_nodes_says_why() {
        for (text, why) in [
            ("", "has an empty entry"),
            ("http://a:1,", "has an empty entry"),
            ("10.0.0.1:8080", "does not begin with http://"),
            ("redis://10.0.0.1:6379", "does not begin with http://"),
            ("https://a:1", "without TLS"),
            ("http://a", "is not an address"),
            ("http://a:x", "names no port"),
            ("http://a:0", "has no port"),
            ("http://a:70000", "port over 65535"),
            ("http://user@a:1", "more than an address"),
            ("http://a:1/kv", "more than an address"),
            ("http://a:1,http://a:1", "lists a:1 twice"),
            ("x=http://a:1,x=http://b:1", "two nodes of the name 'x'"),
            ("x y=http://a:1", "has an invalid name"),
            ("=http://a:1", "has an invalid name"),
        ] {
            let error = NodeList::parse(text).unwrap_err();
            assert!(error.why.contains(why), "{text}: {}", error.why);
        }
        let many: Vec<String> = (1..=ROUTER_NODES_MAX + 1).map(|n| format!("http://a:{n}")).collect();
        assert!(NodeList::parse(&many.join(",")).unwrap_err().why.contains("more than 100 nodes"));
    }

    #[test]
    fn the_order_of_the_list_does_not_matter_and_the_names_decide() {
        let by_name = |text: &str| -> Vec<String> {
            let nodes = list(text);
            nodes.owners().unwrap().iter().map(|owner| nodes.nodes()[*owner].id.to_string()).collect()
        };
        let first = by_name("a=http://h:1,b=http://h:2,c=http://h:3");
        assert_eq!(by_name("c=http://h:3,a=http://h:1,b=http://h:2"), first);
        assert_eq!(by_name("c=http://x:9,a=http://x:8,b=http://x:7"), first, "addresses do not matter");
        assert_ne!(by_name("a=http://h:1,b=http://h:2,d=http://h:3"), first);
        for id in ["a", "b", "c"] {
            let share = first.iter().filter(|owner| *owner == id).count();
            assert!((5461..=5462).contains(&share), "{id} has {share}");
        }
    }
}
