//! What the commands on documents share: finding the document and its matches, putting it back. It touches the keyspace.
//!
//! A command works on a tree of its own and puts its text back as a whole, so that a refusal half way has changed nothing.

use keystead_model::Bytes;
use keystead_model::keyspace::Expire;
use serde_json::Value;

use super::document;
use super::location::{self, Location};
use super::path::{Order, Path};
use crate::bounds::JSON_BYTES_MAX;
use crate::ctx::Dialect;
use crate::errors::Fail;
use crate::{Args, Ctx, Reply};

/// `ERR could not perform this operation on a key that doesn't exist`
pub(super) const NO_DOCUMENT: Fail =
    Fail::fixed("ERR could not perform this operation on a key that doesn't exist");

/// `ERR new objects must be created at the root`
pub(super) const NOT_ROOT: Fail = Fail::fixed("ERR new objects must be created at the root");

/// `ERR Path '$.x' does not exist`
pub(super) fn no_path(path: &Path) -> Fail {
    Fail::text(format!("ERR Path '{}' does not exist", path.text()))
}

/// `ERR Path '$.x' does not exist or not an array`
pub(super) fn no_path_or(path: &Path, or: &str) -> Fail {
    Fail::text(format!("ERR Path '{}' does not exist or {or}", path.text()))
}

/// `WRONGTYPE wrong type of path value - expected string but found integer`
pub(super) fn wrong_kind(expected: &str, found: &str) -> Fail {
    Fail::text(format!("WRONGTYPE wrong type of path value - expected {expected} but found {found}"))
}

/// The path at this index of the arguments, or the root.
pub(super) fn path_at(args: Args<'_>, index: usize) -> Result<Path, Fail> {
    Ok(args.get(index).map_or_else(|| Ok(Path::root()), Path::read)?)
}

/// Refuses arguments behind the last that a command knows.
pub(super) fn at_most(args: Args<'_>, count: usize, name: &str) -> Result<(), Fail> {
    if args.len() > count { Err(crate::errors::wrong_arity(name)) } else { Ok(()) }
}

/// In which order `..` finds things for whoever asks.
pub(super) fn order(ctx: &Ctx<'_>) -> Order {
    match ctx.dialect {
        Dialect::Redis => Order::OuterFirst,
        Dialect::Upstash => Order::InnerFirst,
    }
}

/// The document under a key.
pub(super) fn load(ctx: &mut Ctx<'_>, key: &[u8]) -> Result<Option<Value>, Fail> {
    let Some(text) = ctx.keys.json(key, ctx.now)? else { return Ok(None) };
    Ok(Some(document::parse(text)?))
}

/// Puts a document that is printed already. When it expires stays as it is.
pub(super) fn store_text(ctx: &mut Ctx<'_>, key: &[u8], text: String) -> Result<(), Fail> {
    ctx.keys.set_json(key, Bytes::from(text.into_bytes()), Expire::Keep, ctx.now)?;
    Ok(())
}

/// Refuses to put a value of so many bytes at so many places: the document would be too long, and so would its tree.
pub(super) fn check_growth(locations: usize, bytes: usize) -> Result<(), Fail> {
    let fits = locations.checked_mul(bytes).is_some_and(|bytes| bytes <= JSON_BYTES_MAX);
    if fits { Ok(()) } else { Err(document::Flaw::TooLong.into()) }
}

/// A document in the hands of a command that changes it.
pub(super) struct Edit {
    before: Bytes,
    pub(super) tree: Value,
    pub(super) path: Path,
    order: Order,
}

/// What a change of one match answers: `None` where the value is of another kind.
pub(super) type Changed<T> = Result<Option<T>, Fail>;

impl Edit {
    /// The document under the key at index 1, and a path.
    pub(super) fn begin(ctx: &mut Ctx<'_>, args: Args<'_>, path: Path) -> Result<Edit, Fail> {
        let order = order(ctx);
        let before = ctx.keys.json(args.at(1), ctx.now)?.ok_or(NO_DOCUMENT)?.clone();
        let tree = document::parse(&before)?;
        Ok(Edit { before, tree, path, order })
    }

    /// The places of the matches.
    pub(super) fn locations(&self) -> Result<Vec<Location>, Fail> {
        Ok(self.path.locations(&self.tree, self.order)?.into_iter().map(|(location, _)| location).collect())
    }

    /// Changes each match where it stands, inner ones before outer ones, and answers in the order of the matches. What
    /// matches several times is changed once. Each change may add so many bytes to the document.
    pub(super) fn each<T: Clone>(
        &mut self,
        growth_bytes: usize,
        mut change: impl FnMut(&mut Value) -> Changed<T>,
    ) -> Result<Vec<Option<T>>, Fail> {
        let locations = self.locations()?;
        check_growth(locations.len(), growth_bytes)?;
        let mut answers: Vec<Option<T>> = vec![None; locations.len()];
        let mut before: Option<usize> = None;
        for at in location::inside_out(&locations) {
            if let Some(same) = before.filter(|before| locations[*before] == locations[at]) {
                answers[at] = answers[same].clone();
            } else if let Some(value) = location::at_mut(&mut self.tree, &locations[at]) {
                answers[at] = change(value)?;
            }
            before = Some(at);
        }
        Ok(answers)
    }

    /// Puts the document back if it is another one now.
    pub(super) fn finish(&self, ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), Fail> {
        let text = document::print(&self.tree)?;
        if text.as_bytes() != self.before.as_slice() {
            store_text(ctx, args.at(1), text)?;
        }
        Ok(())
    }

    /// The answer to what was changed: one for each match; for a legacy path that of the last value of the right kind.
    pub(super) fn reply<T>(
        &self,
        answers: Vec<Option<T>>,
        kind: &str,
        to_reply: impl Fn(T) -> Reply,
    ) -> Result<Reply, Fail> {
        if !self.path.is_legacy() {
            let replies = answers.into_iter().map(|answer| answer.map_or(Reply::Nil, &to_reply));
            return Ok(Reply::Array(replies.collect()));
        }
        let last = answers.into_iter().flatten().last();
        last.map(to_reply).ok_or_else(|| no_path_or(&self.path, kind))
    }
}
