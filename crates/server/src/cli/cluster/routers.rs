//! What routers say in `keystead cluster status`: the epoch that they follow, and how many requests they have passed on. Touches their HTTP
//! listeners.

use std::collections::BTreeMap;
use std::fmt::Write;

use hyper::Method;
use keystead_cluster::{Node, NodeId};
use keystead_core::Result;
use tokio::time::timeout;

use super::Operator;
use crate::bounds::CLUSTER_PROBE_TIMEOUT;
use crate::cluster::migration::call::Peer;
use crate::failure::failure;

/// What a router has counted since its start.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    epoch: u64,
    /// Requests by node, over HTTP and RESP.
    proxied: BTreeMap<String, u64>,
    /// Requests that were sent again because of a slot that moves.
    again: u64,
}

/// A line for each router, and whether all of them answer.
pub(super) async fn lines(urls: &[String], cluster: &str, operator: &Operator<'_>) -> Result<(String, bool)> {
    let (mut text, mut is_complete) = (String::new(), true);
    for url in urls {
        // Only its address is used.
        let id = NodeId::new("router")?;
        let node = Node::new(id, "redis://router:1", url.trim_end_matches('/'));
        node.validate().map_err(|_| {
            failure(format_args!("--router '{url}' is not an address"), "write http://HOST:PORT")
        })?;
        let mut peer = Peer::new(node, cluster, operator.token);
        let asked = timeout(CLUSTER_PROBE_TIMEOUT, peer.call(Method::GET, "/metrics", Vec::new())).await;
        let counts = asked
            .ok()
            .and_then(Result::ok)
            .and_then(|answered| Counts::parse(&String::from_utf8_lossy(&answered.body)));
        is_complete &= counts.is_some();
        // Writing to a String cannot fail.
        let _ = match counts {
            Some(counts) => writeln!(text, "  router {url}  {}", counts.shown()),
            None => writeln!(text, "  router {url}  does not answer"),
        };
    }
    Ok((text, is_complete))
}

impl Counts {
    /// The counts in the metrics of a router; nothing if these are not its metrics.
    fn parse(metrics: &str) -> Option<Counts> {
        let (mut counts, mut is_router) = (Counts::default(), false);
        for line in metrics.lines() {
            let Some((name, value)) =
                line.strip_prefix("keystead_router_").and_then(|line| line.rsplit_once(' '))
            else {
                continue;
            };
            let Ok(value) = value.parse::<u64>() else { continue };
            let (name, labels) = name.split_once('{').unwrap_or((name, ""));
            let node = labels.strip_prefix("node=\"").and_then(|labels| labels.strip_suffix("\"}"));
            match (name, node) {
                ("epoch", _) => (counts.epoch, is_router) = (value, true),
                ("node_requests_total" | "resp_node_commands_total", Some(node)) => {
                    *counts.proxied.entry(node.to_owned()).or_default() += value;
                }
                ("redirects_total", Some(_)) => counts.again += value,
                _ => {}
            }
        }
        is_router.then_some(counts)
    }

    /// `epoch 7, 120 requests proxied (a 50, b 70), 3 sent again`
    fn shown(&self) -> String {
        let all: u64 = self.proxied.values().sum();
        let by_node: Vec<String> =
            self.proxied.iter().map(|(node, count)| format!("{node} {count}")).collect();
        let by_node = if by_node.is_empty() { String::new() } else { format!(" ({})", by_node.join(", ")) };
        format!("epoch {}, {all} requests proxied{by_node}, {} sent again", self.epoch, self.again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metrics_of_a_router_are_read() {
        let metrics = "# TYPE keystead_router_node_requests counter\n\
            keystead_router_node_requests_total{node=\"a\"} 5\n\
            keystead_router_node_requests_total{node=\"b\"} 7\n\
            keystead_router_resp_node_commands_total{node=\"a\"} 10\n\
            keystead_router_redirects_total{node=\"a\"} 2\n\
            keystead_router_node_errors_total{node=\"a\",code=\"x\"} 9\n\
            keystead_router_epoch 3\n";
        let counts = Counts::parse(metrics).unwrap();
        assert_eq!(counts.shown(), "epoch 3, 22 requests proxied (a 15, b 7), 2 sent again");
        assert_eq!(Counts::parse("keystead_commands_total 3\n"), None, "a node");
    }
}
