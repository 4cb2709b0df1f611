//! Commands, independent of each other: one pipeline for each node. Those of one slot stay in order.

use std::sync::Arc;

use keystead_core::{Error, Outcome, Result};
use redis::{Cmd, Pipeline, Value};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::super::cluster::{Asking, Route};
use super::super::failure::Failure;
use super::super::node::Node;
use super::{Call, Merge, To, Upstream, before, exclusive, full, redirection, send};

/// A command without a reply so far.
struct Pending<'a> {
    n: usize,
    command: Cmd,
    route: Route<'a>,
}

/// The commands for one node.
struct Group<'a> {
    node: Arc<Node>,
    pending: Vec<Pending<'a>>,
}

/// The replies so far.
type Replies = Vec<Option<Result<Value>>>;

impl Upstream {
    /// Sends commands, and returns their replies in the same order. An error reply is a `Value`.
    ///
    /// On a cluster, each node gets its commands at the same time; what is sent to each node waits for the commands before it.
    pub async fn pipeline(&self, calls: Vec<Call>) -> Vec<Result<Value>> {
        let Ok(_permit) = self.calls.try_acquire() else {
            return calls.iter().map(|_| Err(full("requests"))).collect();
        };
        let (end, is_one) = (self.end(), calls.len() == 1);
        let mut replies: Replies = calls.iter().map(|_| None).collect();
        let mut waiting = Vec::new();
        for (n, call) in calls.into_iter().enumerate() {
            match call.to {
                To::Each(merge) if self.is_cluster() => {
                    self.run(std::mem::take(&mut waiting), is_one, end, &mut replies).await;
                    replies[n] = Some(self.each(&call.command, merge, end).await);
                }
                To::Slot(slot) => waiting.push((n, slot, call.command)),
                To::Any | To::Each(_) => waiting.push((n, 0, call.command)),
            }
        }
        self.run(waiting, is_one, end, &mut replies).await;
        let missing = || Error::from(Failure::Lost("the reply is missing".to_owned()));
        replies.into_iter().map(|reply| reply.unwrap_or_else(|| Err(missing()))).collect()
    }

    async fn run(&self, calls: Vec<(usize, u16, Cmd)>, is_one: bool, end: Instant, replies: &mut Replies) {
        let mut pending = Vec::with_capacity(calls.len());
        let mut unreachable: Option<String> = None;
        for (n, slot, command) in calls {
            // A cluster that could not be reached for one command is not tried for each of the others.
            let route = match &unreachable {
                Some(message) => Err(Failure::NotSent(message.clone())),
                None => before(end, self.cluster.route_to(slot)).await,
            };
            match route {
                Ok(route) => pending.push(Pending { n, command, route }),
                Err(failure) => {
                    let error = self.error(&failure);
                    unreachable.get_or_insert_with(|| error.message().to_owned());
                    replies[n] = Some(Err(error));
                }
            }
        }
        while !pending.is_empty() {
            let mut again = Vec::new();
            for (group, sent) in self.send_groups(grouped(pending), end).await {
                match sent {
                    Ok(values) => self.settle(group, values, is_one, end, (&mut *replies, &mut again)).await,
                    Err(failure) => self.failed(group, failure, end, (&mut *replies, &mut again)).await,
                }
            }
            again.sort_by_key(|pending: &Pending<'_>| pending.n);
            pending = again;
        }
    }

    /// Sends each node its commands, all at the same time.
    async fn send_groups<'a>(
        &self,
        mut groups: Vec<Group<'a>>,
        end: Instant,
    ) -> Vec<(Group<'a>, Result<Vec<Value>, Failure>)> {
        let keep = self.is_cluster();
        let pipelines: Vec<_> = groups.iter_mut().map(|group| group.pipeline(keep)).collect();
        let mut tasks = JoinSet::new();
        let mut sent: Vec<_> = groups.iter().map(|_| None).collect();
        let count = groups.len();
        for (place, (group, commands)) in groups.iter().zip(pipelines).enumerate() {
            let node = Arc::clone(&group.node);
            if count == 1 {
                sent[place] = Some(on_node(&node, &commands, end).await);
            } else {
                tasks.spawn(async move { (place, on_node(&node, &commands, end).await) });
            }
        }
        while let Some(ended) = tasks.join_next().await {
            if let Ok((place, replies)) = ended {
                sent[place] = Some(replies);
            }
        }
        let stopped = || Err(Failure::Lost("the server is stopping".to_owned()));
        groups.into_iter().zip(sent.into_iter().map(|sent| sent.unwrap_or_else(stopped))).collect()
    }

    /// Takes the replies of a node. What it has redirected is sent again.
    async fn settle<'a>(
        &self,
        group: Group<'a>,
        values: Vec<Value>,
        is_one: bool,
        end: Instant,
        (replies, again): (&mut Replies, &mut Vec<Pending<'a>>),
    ) {
        let mut values = values.into_iter();
        for mut pending in group.pending {
            if pending.route.asking == Asking::Yes {
                values.next();
            }
            let Some(value) = values.next() else { continue };
            // A command on several keys that is tried again would run after later ones of the pipeline.
            let moved =
                redirection(&value).filter(|moved| self.is_cluster() && (is_one || !moved.is("TRYAGAIN")));
            let Some(moved) = moved else {
                replies[pending.n] = Some(Ok(value));
                continue;
            };
            match before(end, pending.route.follow(moved)).await {
                Ok(()) => again.push(pending),
                Err(failure) => replies[pending.n] = Some(Err(self.error(&failure))),
            }
        }
    }

    /// Handles a node that sent no replies. If it was not reached, another may have its slots now.
    async fn failed<'a>(
        &self,
        group: Group<'a>,
        failure: Failure,
        end: Instant,
        (replies, again): (&mut Replies, &mut Vec<Pending<'a>>),
    ) {
        let mut all = group.pending.into_iter();
        let Some(mut first) = all.next() else { return };
        // It reads the slots again, if it may; for the others they need not be read again.
        let mut failed = before(end, first.route.follow(failure)).await.err();
        for (is_first, mut pending) in
            std::iter::once((true, first)).chain(all.map(|pending| (false, pending)))
        {
            if failed.is_none() && !is_first {
                failed = before(end, pending.route.renew()).await.err();
            }
            match &failed {
                None => again.push(pending),
                Some(failure) => replies[pending.n] = Some(Err(self.error(failure))),
            }
        }
    }

    /// Sends a command to each node.
    pub(super) async fn each(&self, command: &Cmd, merge: Merge, end: Instant) -> Result<Value> {
        let masters = before(end, self.cluster.masters()).await?;
        let mut tasks = JoinSet::new();
        for (place, node) in masters.into_iter().enumerate() {
            let mut commands = Pipeline::new();
            commands.add_command(command.clone());
            tasks.spawn(async move { (place, on_node(&node, &commands, end).await) });
        }
        let mut ended: Vec<_> = tasks.join_all().await;
        ended.sort_by_key(|(place, _)| *place);
        let (mut values, mut failed) = (Vec::new(), None);
        for (_, sent) in ended {
            match sent {
                Ok(replies) => values.extend(replies),
                Err(failure) => failed = Some(self.error(&failure)),
            }
        }
        match failed {
            // Some nodes have run it.
            Some(error) if !values.is_empty() && error.outcome() == Outcome::NotApplied => {
                Err(Error::unknown(error.code(), error.message().to_owned()))
            }
            Some(error) => Err(error),
            None => Ok(merged(values, merge)),
        }
    }

    pub(super) fn error(&self, failure: &Failure) -> Error {
        failure.to_error(self.bounds.reply_bytes_max)
    }
}

impl Group<'_> {
    /// The commands as one pipeline. They are kept if they may have to be sent again.
    fn pipeline(&mut self, keep: bool) -> Pipeline {
        let mut commands = Pipeline::with_capacity(self.pending.len());
        for pending in &mut self.pending {
            if pending.route.asking == Asking::Yes {
                commands.cmd("ASKING");
            }
            let command = if keep { pending.command.clone() } else { std::mem::take(&mut pending.command) };
            commands.add_command(command);
        }
        commands
    }
}

fn grouped(pending: Vec<Pending<'_>>) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for pending in pending {
        let group = groups.iter_mut().find(|group| Arc::ptr_eq(&group.node, &pending.route.node));
        match group {
            Some(group) => group.pending.push(pending),
            None => groups.push(Group { node: Arc::clone(&pending.route.node), pending: vec![pending] }),
        }
    }
    groups
}

async fn on_node(node: &Node, commands: &Pipeline, end: Instant) -> Result<Vec<Value>, Failure> {
    let mut connection = exclusive(node, end).await?;
    let replies = send(&mut connection, commands, end).await?;
    connection.give_back();
    Ok(replies)
}

/// One reply of those of all nodes. An error is returned as it is.
fn merged(values: Vec<Value>, merge: Merge) -> Value {
    if let Some(error) = values.iter().find(|value| matches!(value, Value::ServerError(_))) {
        return error.clone();
    }
    match merge {
        Merge::First => values.into_iter().next().unwrap_or(Value::Nil),
        Merge::Sum => {
            let number = |value: &Value| if let Value::Int(number) = value { *number } else { 0 };
            Value::Int(values.iter().map(number).fold(0, i64::saturating_add))
        }
        Merge::Join => {
            let items = |value| if let Value::Array(items) = value { items } else { Vec::new() };
            Value::Array(values.into_iter().flat_map(items).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_of_several_nodes_become_one() {
        let int = |number| Value::Int(number);
        assert_eq!(merged(vec![int(1), int(2)], Merge::Sum), int(3));
        assert_eq!(merged(vec![int(1), int(2)], Merge::First), int(1));
        let list = |numbers: &[i64]| Value::Array(numbers.iter().copied().map(Value::Int).collect());
        assert_eq!(merged(vec![list(&[1]), list(&[]), list(&[2, 3])], Merge::Join), list(&[1, 2, 3]));
    }
}
