//! The id of an event of several nodes: how far the stream of each of them is, as of an epoch of the table. Pure.
//!
//! `7/a:12-5,b:3-9`: epoch 7, and for each node the id of its last event, which begins with the name of the node if it knows that.

use std::collections::BTreeMap;
use std::fmt;

/// How far the streams of all nodes are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    /// That of the table by which slots have owners; 0 with a list of nodes.
    pub(super) epoch: u64,
    /// By node. What the node itself calls the id, without its name.
    pub(super) nodes: BTreeMap<String, String>,
}

impl Position {
    /// The position of a text that [`fmt::Display`] has written.
    pub(super) fn parse(text: &str) -> Option<Position> {
        let (epoch, nodes) = text.split_once('/')?;
        let nodes = nodes.split(',').map(|node| {
            let (name, id) = node.split_once(':')?;
            let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
            (is_id && !name.is_empty()).then(|| (name.to_owned(), id.to_owned()))
        });
        Some(Position { epoch: epoch.parse().ok()?, nodes: nodes.collect::<Option<_>>()? })
    }

    /// Notes the id of an event of a node.
    pub(super) fn note(&mut self, node: &str, id: &str) {
        let id = id.split_once(':').map_or(id, |(_, id)| id);
        self.nodes.insert(node.to_owned(), id.to_owned());
    }

    /// The id for a node to continue after. A node of a cluster wants its name in it.
    pub(super) fn of(&self, node: &str, is_cluster: bool) -> Option<String> {
        let id = self.nodes.get(node)?;
        Some(if is_cluster { format!("{node}:{id}") } else { id.clone() })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<String> = self.nodes.iter().map(|(name, id)| format!("{name}:{id}")).collect();
        write!(f, "{}/{}", self.epoch, nodes.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_that_of_every_node() {
        let mut position = Position { epoch: 7, ..Position::default() };
        position.note("b", "3-9");
        position.note("a", "a:12-5");
        assert_eq!(position.to_string(), "7/a:12-5,b:3-9");
        let parsed = Position::parse("7/a:12-5,b:3-9").unwrap();
        assert_eq!(parsed, position);
        assert_eq!(parsed.of("a", true).as_deref(), Some("a:12-5"));
        assert_eq!(parsed.of("b", false).as_deref(), Some("3-9"));
        assert_eq!(parsed.of("c", true), None);
    }

    #[test]
    fn what_is_no_position_is_rejected() {
        for bad in
            ["", "12-5", "a:12-5", "/a:1", "7/", "7/a", "7/a:", "7/:1", "x/a:1", "7/a:1,,b:2", "7/a:1\nb"]
        {
            assert_eq!(Position::parse(bad), None, "{bad}");
        }
    }
}
