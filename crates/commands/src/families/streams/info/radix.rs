//! The size of the radix tree that Redis would have for a stream, which XINFO returns. It touches nothing.

use keystead_model::value::stream::{Stream, StreamId};

use crate::families::streams::node::Nodes;

/// Entries that are examined; the rest is estimated.
const EXAMINED_MAX: usize = 2000;

/// The size of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Keys: one for each node of entries.
    pub(super) keys: usize,
    /// Nodes of the tree itself.
    pub(super) nodes: usize,
}

/// The tree of a stream.
pub(super) fn shape(stream: &Stream) -> Shape {
    let mut nodes = Nodes::new(stream.range(..).take(EXAMINED_MAX));
    let keys: Vec<[u8; 16]> =
        std::iter::from_fn(|| nodes.next(usize::MAX)).map(|node| bytes(node.first)).collect();
    let examined = stream.len().clamp(1, EXAMINED_MAX);
    let scale = |count: usize| count.saturating_mul(stream.len()).div_ceil(examined);
    let shape = Shape { keys: keys.len(), nodes: count_nodes(&keys) };
    if stream.len() <= EXAMINED_MAX {
        shape
    } else {
        Shape { keys: scale(shape.keys), nodes: scale(shape.nodes) }
    }
}

fn bytes(id: StreamId) -> [u8; 16] {
    ((u128::from(id.ms) << 64) | u128::from(id.seq)).to_be_bytes()
}

/// A node for the end of each key, each branch, and each run of bytes without a branch. Keys are sorted.
fn count_nodes(keys: &[[u8; 16]]) -> usize {
    let mut nodes = 0;
    let mut rest = vec![(keys, 0)];
    while let Some((keys, depth)) = rest.pop() {
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else { return 1 };
        let shared = first[depth..].iter().zip(&last[depth..]).take_while(|(a, b)| a == b).count();
        // The run up to the branch or the end, and the branch or the end itself.
        nodes += usize::from(shared > 0) + 1;
        let at = depth + shared;
        if keys.len() > 1 {
            rest.extend(keys.chunk_by(|a, b| a[at] == b[at]).map(|keys| (keys, at + 1)));
        }
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_counted() {
        let key = |ms, seq| bytes(StreamId::new(ms, seq));
        assert_eq!(count_nodes(&[]), 1);
        assert_eq!(count_nodes(&[key(1, 1)]), 2);
        // A run, a branch, and two keys that end there.
        assert_eq!(count_nodes(&[key(1, 1), key(1, 2)]), 4);
        // The branch is before the last run of bytes.
        assert_eq!(count_nodes(&[key(1, 1), key(2, 1)]), 6);
    }
}
