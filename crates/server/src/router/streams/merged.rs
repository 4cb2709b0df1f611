//! The streams of all nodes as one: what a client gets. Touches nothing.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::What;
use super::blocks::Block;
use super::follow::{Item, News};
use super::position::Position;
use crate::http::events::Source;
use crate::router::node::Node;

/// The streams of all nodes. Their tasks end with it.
pub(super) struct Merged {
    pub(super) received: mpsc::UnboundedReceiver<Item>,
    pub(super) first: Option<Bytes>,
    pub(super) state: State,
    pub(super) _tasks: JoinSet<()>,
}

/// What is known of the nodes.
pub(super) struct State {
    what: What,
    pub(super) position: Position,
    /// Those that the client knows to be away.
    away: BTreeSet<String>,
}

impl State {
    pub(super) fn new(what: What, position: Position) -> State {
        State { what, position, away: BTreeSet::new() }
    }

    /// Appends what the client gets. An error ends its stream.
    pub(super) fn write(&mut self, item: Item, out: &mut Vec<u8>) -> io::Result<()> {
        match item {
            Item::Of(node, news, _) => return self.write_news(&node, news, out),
            Item::Moved(epoch) => {
                self.position.epoch = epoch;
                self.write_moved(out);
            }
            Item::TooSlow => return Err(io::Error::other("this client reads too slowly")),
        }
        Ok(())
    }

    fn write_news(&mut self, node: &Arc<Node>, news: News, out: &mut Vec<u8>) -> io::Result<()> {
        let name = node.id.as_str();
        match news {
            News::Began(id) => {
                if let Some(id) = id {
                    self.position.note(name, &id);
                }
                if self.away.remove(name) {
                    comment(&format!("{} is back", node.shown()), out);
                }
            }
            News::Away(error) => {
                if self.away.insert(name.to_owned()) {
                    comment(error.message(), out);
                }
            }
            News::Refused(status, _) => {
                let why = format!("{} ended the stream with {}", node.shown(), status.as_u16());
                return Err(io::Error::other(why));
            }
            News::Block(block) => self.write_block(name, &block, out),
        }
        Ok(())
    }

    fn write_block(&mut self, node: &str, block: &Block, out: &mut Vec<u8>) {
        match self.what {
            // The router confirms subscriptions itself, one time.
            What::Messages if is_confirmation(&block.lines) => return,
            What::Messages => {}
            What::Changes => {
                if let Some(id) = &block.id {
                    self.position.note(node, id);
                }
                self.write_id(out);
            }
        }
        // Only the documents of this node are gone.
        match block.lines.starts_with(b"event: flush\n") {
            true => write_event("flush", &json!({ "node": node }).to_string(), out),
            false => {
                out.extend_from_slice(&block.lines);
                out.extend_from_slice(if block.lines.is_empty() { b"\n" } else { b"\n\n" });
            }
        }
    }

    pub(super) fn write_id(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("id: {}\n", self.position).as_bytes());
    }

    /// Slots have other owners than before: events of their documents may be missing, or come in another order.
    pub(super) fn write_moved(&self, out: &mut Vec<u8>) {
        self.write_id(out);
        write_event("moved", &json!({ "epoch": self.position.epoch }).to_string(), out);
    }
}

fn write_event(name: &str, data: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("event: {name}\ndata: {data}\n\n").as_bytes());
}

fn is_confirmation(lines: &[u8]) -> bool {
    [&b"data: subscribe,"[..], b"data: psubscribe,"].iter().any(|start| lines.starts_with(start))
}

fn comment(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(format!(": {}\n\n", text.replace(['\r', '\n'], " ")).as_bytes());
}

impl Source for Merged {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        loop {
            let Some(item) = ready!(self.received.poll_recv(cx)) else { return Poll::Ready(None) };
            let mut out = Vec::new();
            if let Err(error) = self.state.write(item, &mut out) {
                return Poll::Ready(Some(Err(error)));
            }
            if !out.is_empty() {
                return Poll::Ready(Some(Ok(out.into())));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::NodeList;
    use crate::router::node::{CallError, Deadlines};

    fn node() -> Arc<Node> {
        let list = NodeList::parse("a=http://h:1").unwrap();
        Arc::new(Node::new(&list.nodes()[0], Deadlines::default()))
    }

    fn written(state: &mut State, news: News) -> String {
        let mut out = Vec::new();
        state.write(Item::Of(node(), news, None), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn block(id: Option<&str>, lines: &str) -> News {
        News::Block(Block { id: id.map(str::to_owned), lines: lines.into() })
    }

    #[test]
    fn events_get_the_position_of_all_nodes() {
        let mut position = Position { epoch: 2, ..Position::default() };
        position.note("b", "4");
        let mut state = State::new(What::Changes, position);
        assert_eq!(written(&mut state, News::Began(Some("a:0".to_owned()))), "");
        assert_eq!(
            written(&mut state, block(Some("a:1"), "event: put\ndata: {}")),
            "id: 2/a:1,b:4\nevent: put\ndata: {}\n\n"
        );
        assert_eq!(written(&mut state, block(Some("a:9"), "")), "id: 2/a:9,b:4\n\n");
        assert_eq!(
            written(&mut state, block(Some("a:10"), "event: flush\ndata: {}")),
            "id: 2/a:10,b:4\nevent: flush\ndata: {\"node\":\"a\"}\n\n"
        );
        let mut out = Vec::new();
        state.write(Item::Moved(3), &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "id: 3/a:10,b:4\nevent: moved\ndata: {\"epoch\":3}\n\n");
    }

    #[test]
    fn confirmations_of_nodes_are_not_passed_on_and_messages_are() {
        let mut state = State::new(What::Messages, Position::default());
        assert_eq!(written(&mut state, block(None, "data: subscribe,ch,1")), "");
        assert_eq!(written(&mut state, block(None, "data: psubscribe,p*,1")), "");
        assert_eq!(
            written(&mut state, block(None, "data: message,ch,a\ndata: b")),
            "data: message,ch,a\ndata: b\n\n"
        );
    }

    #[test]
    fn a_node_that_is_away_is_reported_one_time_until_it_is_back() {
        let mut state = State::new(What::Messages, Position::default());
        let away = || News::Away(CallError::Lost("lost".to_owned()));
        assert_eq!(written(&mut state, away()), ": lost\n\n");
        assert_eq!(written(&mut state, away()), "");
        assert_eq!(written(&mut state, News::Began(None)), ": node a (http://h:1) is back\n\n");
        assert_eq!(written(&mut state, News::Began(None)), "");
    }
}
