//! Server-sent events of a node: where a block ends, and what is in it. Pure.

use crate::bounds::ROUTER_LINE_BYTES_MAX;

/// One event of a node, or its position alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    /// The position of the node, if the block has one.
    pub(super) id: Option<String>,
    /// Its lines but the id and comments, without the end of the last one; empty if there are none.
    pub(super) lines: Vec<u8>,
}

impl Block {
    /// A block without the empty line behind it.
    fn of(text: &[u8]) -> Block {
        let mut block = Block::default();
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.starts_with(b":")) {
            match line.strip_prefix(b"id: ") {
                Some(id) => block.id = Some(String::from_utf8_lossy(id).into_owned()),
                None => {
                    if !block.lines.is_empty() {
                        block.lines.push(b'\n');
                    }
                    block.lines.extend_from_slice(line);
                }
            }
        }
        block
    }

    /// Whether it is a comment.
    pub(super) fn is_empty(&self) -> bool {
        self.id.is_none() && self.lines.is_empty()
    }
}

/// Bytes that have arrived of a stream.
#[derive(Default)]
pub(super) struct Blocks {
    bytes: Vec<u8>,
    /// Before this, there is no end of a block.
    searched: usize,
}

/// A block is over the bound.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl Blocks {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole block.
    pub(super) fn next(&mut self) -> Result<Option<Block>, TooLong> {
        let from = self.searched.saturating_sub(1);
        let end = self.bytes[from..].windows(2).position(|two| two == b"\n\n").map(|at| from + at);
        let Some(end) = end else {
            self.searched = self.bytes.len();
            return if self.bytes.len() > ROUTER_LINE_BYTES_MAX { Err(TooLong) } else { Ok(None) };
        };
        let block = Block::of(&self.bytes[..end]);
        self.bytes.drain(..end + 2);
        self.searched = 0;
        Ok(Some(block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_wherever_the_parts_are_cut() {
        let text = b": listening\nid: a:1-2\n\nid: a:3-2\nevent: put\ndata: {}\n\n: still here\n\ndata: x\ndata: y\n\n";
        let expected = [
            (Some("a:1-2"), ""),
            (Some("a:3-2"), "event: put\ndata: {}"),
            (None, ""),
            (None, "data: x\ndata: y"),
        ];
        for size in 1..text.len() {
            let (mut blocks, mut found) = (Blocks::default(), Vec::new());
            for part in text.chunks(size) {
                blocks.push(part);
                while let Some(block) = blocks.next().unwrap() {
                    found.push(block);
                }
            }
            let found: Vec<_> = found
                .iter()
                .map(|block| (block.id.as_deref(), std::str::from_utf8(&block.lines).unwrap()))
                .collect();
            assert_eq!(found, expected, "parts of {size} bytes");
        }
    }

    #[test]
    fn a_block_without_an_end_is_bounded() {
        let mut blocks = Blocks::default();
        blocks.push(&vec![b'x'; ROUTER_LINE_BYTES_MAX]);
        assert_eq!(blocks.next(), Ok(None));
        blocks.push(b"x");
        assert_eq!(blocks.next(), Err(TooLong));
    }
}
