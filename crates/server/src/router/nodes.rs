//! The nodes of `--nodes`: names, addresses, and the slot table that follows from them. Pure.
//!
//! Invariant: the same nodes result in the same table, in whichever order they are listed, on every router.

use keystead_cluster::{Node, NodeId, SlotTable, TableError};
use keystead_commands::hub::endpoint;
use keystead_core::{Code, Error, Result};

use crate::bounds::ROUTER_NODES_MAX;
use crate::settings::Listen;
use crate::settings::value::InvalidValue;

const FIX: &str = "write the nodes' HTTP addresses, for example http://10.0.0.1:8080,http://10.0.0.2:8080, or NAME=http://10.0.0.1:8080,NAME=redis://10.0.0.1:6379";

/// The name of the table, which no other process sees.
const CLUSTER: &str = "static";

/// The nodes of a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeList(Vec<Listed>);

/// Where one listener of a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// A name, an IPv4 or an IPv6 address.
    pub(super) host: String,
    pub(super) port: u16,
    /// The node wants TLS there, which a router does not speak.
    pub(super) is_tls: bool,
}

impl Address {
    /// The address as URLs have it.
    pub(super) fn authority(&self) -> String {
        Listen::At { host: self.host.clone(), port: self.port }.to_string()
    }

    fn of_url(url: &str) -> Option<Address> {
        let (host, port) = endpoint(url)?;
        let is_tls = url.starts_with("https:") || url.starts_with("rediss:");
        Some(Address { host: host.to_owned(), port, is_tls })
    }
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    /// Its name, by which slots are given out.
    pub(super) id: NodeId,
    pub(super) http: Address,
    /// A list may leave it out, if the router has no RESP listener.
    pub(super) resp: Option<Address>,
}

impl Listed {
    /// A node of a slot table; nothing if it has no address.
    pub(super) fn of(node: &Node) -> Option<Listed> {
        let http = Address::of_url(&node.http)?;
        Some(Listed { id: node.id.clone(), http, resp: Address::of_url(&node.resp) })
    }

    /// Its HTTP address as URLs have it.
    pub(super) fn authority(&self) -> String {
        self.http.authority()
    }
}

impl NodeList {
    /// Parses `http://HOST:PORT` or `NAME=http://HOST:PORT`, separated by commas. `NAME=redis://HOST:PORT` adds the address by RESP.
    pub(crate) fn parse(text: &str) -> std::result::Result<NodeList, InvalidValue> {
        let urls: Vec<Url> =
            text.split(',').map(|url| one(url.trim())).collect::<std::result::Result<_, _>>()?;
        for (n, url) in urls.iter().enumerate() {
            if urls[..n].iter().any(|other| other.address == url.address) {
                let why = format!("lists {} twice", url.address.authority());
                return Err(InvalidValue::new(why, "list each node once"));
            }
            if urls[..n].iter().any(|other| other.id == url.id && other.is_resp == url.is_resp) {
                let why = format!("has two nodes of the name '{}'", url.id);
                return Err(InvalidValue::new(
                    why,
                    "give each node a name of its own: NAME=http://HOST:PORT",
                ));
            }
        }
        let resp_of = |id: &NodeId| urls.iter().find(|url| url.is_resp && url.id == *id);
        let listed = |url: &Url| Listed {
            id: url.id.clone(),
            http: url.address.clone(),
            resp: resp_of(&url.id).map(|resp| resp.address.clone()),
        };
        let nodes: Vec<Listed> = urls.iter().filter(|url| !url.is_resp).map(listed).collect();
        if let Some(alone) = urls.iter().find(|url| !nodes.iter().any(|node| node.id == url.id)) {
            let why = format!("has no http:// address of node '{}'", alone.id);
            return Err(InvalidValue::new(why, FIX));
        }
        if nodes.len() > ROUTER_NODES_MAX {
            return Err(InvalidValue::new(format!("has more than {ROUTER_NODES_MAX} nodes"), "list fewer"));
        }
        Ok(NodeList(nodes))
    }

    /// A node without an address by RESP.
    pub(crate) fn without_resp(&self) -> Option<&NodeId> {
        self.0.iter().find(|node| node.resp.is_none()).map(|node| &node.id)
    }

    pub(super) fn nodes(&self) -> &[Listed] {
        &self.0
    }

    /// The table that shares out the slots.
    ///
    /// # Errors
    /// `config_invalid` when there is no such table.
    pub(super) fn table(&self) -> Result<SlotTable> {
        let node = |listed: &Listed| {
            let authority = listed.authority();
            // The table wants both addresses. The router uses its own list.
            Node::new(listed.id.clone(), format!("redis://{authority}"), format!("http://{authority}"))
        };
        let invalid = |error: TableError| Error::new(Code::ConfigInvalid, format!("--nodes: {error}"));
        SlotTable::init(CLUSTER, self.0.iter().map(node).collect()).map_err(invalid)
    }
}

/// One entry of the list.
struct Url {
    id: NodeId,
    address: Address,
    is_resp: bool,
}

fn one(text: &str) -> std::result::Result<Url, InvalidValue> {
    let invalid = |why: String| InvalidValue::new(why, FIX);
    if text.is_empty() {
        return Err(invalid("has an empty entry".to_owned()));
    }
    let (name, url) = match text.split_once('=') {
        Some((name, url)) if !name.contains(':') => (Some(name), url),
        _ => (None, text),
    };
    if url.contains('@') {
        // It is not quoted: what is before the sign may be a password.
        return Err(invalid(
            "has a URL with a user, and a router passes the credentials of its clients on".to_owned(),
        ));
    }
    let (address, is_resp) = match url.split_once("://") {
        Some(("http", address)) => (address, false),
        Some(("redis", address)) => (address, true),
        Some(("https" | "rediss", _)) => {
            return Err(invalid(format!("names '{url}', and a router reaches its nodes without TLS")));
        }
        _ => return Err(invalid(format!("names '{url}', which does not begin with http:// or redis://"))),
    };
    if is_resp && name.is_none() {
        return Err(invalid(format!("names '{url}' without the name of its node")));
    }
    let address = address.strip_suffix('/').unwrap_or(address);
    if address.contains(['/', '?', '#']) {
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
    Ok(Url { id, address: Address { host, port, is_tls: false }, is_resp })
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
    fn a_node_may_have_an_address_by_resp() {
        let nodes = list("a=http://h:1,a=redis://h:2,b=http://h:3");
        let resp: Vec<_> =
            nodes.nodes().iter().map(|node| node.resp.as_ref().map(Address::authority)).collect();
        assert_eq!(resp, [Some("h:2".to_owned()), None]);
        assert_eq!(nodes.without_resp().map(NodeId::as_str), Some("b"));
    }

    #[test]
    fn what_is_no_list_of_nodes_says_why() {
        for (text, why) in [
            ("", "has an empty entry"),
            ("http://a:1,", "has an empty entry"),
            ("10.0.0.1:8080", "does not begin with http:// or redis://"),
            ("redis://10.0.0.1:6379", "without the name of its node"),
            ("a=redis://h:1", "has no http:// address of node 'a'"),
            ("a=http://h:1,b=redis://h:2", "has no http:// address of node 'b'"),
            ("a=http://h:1,a=redis://h:2,a=redis://h:3", "two nodes of the name 'a'"),
            ("a=http://h:1,a=redis://h:1", "lists h:1 twice"),
            ("a=rediss://h:1", "without TLS"),
            ("https://a:1", "without TLS"),
            ("http://a", "is not an address"),
            ("http://a:x", "names no port"),
            ("http://a:0", "has no port"),
            ("http://a:70000", "port over 65535"),
            ("http://user@a:1", "has a URL with a user"),
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
            let table = list(text).table().unwrap();
            (0..keystead_cluster::bounds::SLOTS)
                .map(|slot| table.owner(slot).unwrap().id.to_string())
                .collect()
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
