//! What the commands on documents share: finding the document and its matches, writing it back. It touches the keyspace.
//!
//! A command works on its own tree and writes the text back as a whole, so that an error midway changes nothing.

use keystead_model::Bytes;
use keystead_model::keyspace::Expire;
use serde_json::Value;

use super::document;
use super::location::{self, Location};
use super::path::{Order, Path};
use crate::bounds::{JSON_BYTES_MAX, JSON_COPIED_BYTES_MAX};
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

/// Rejects arguments after the last that a command accepts.
pub(super) fn at_most(args: Args<'_>, count: usize, name: &str) -> Result<(), Fail> {
    if args.len() > count { Err(crate::errors::wrong_arity(name)) } else { Ok(()) }
}

/// The order in which `..` finds values in the dialect of the client.
pub(super) fn order(ctx: &Ctx<'_>) -> Order {
    match ctx.dialect {
        Dialect::Redis => Order::OuterFirst,
        Dialect::Upstash => Order::InnerFirst,
    }
}

/// The document at a key.
pub(super) fn load(ctx: &mut Ctx<'_>, key: &[u8]) -> Result<Option<Value>, Fail> {
    let Some(text) = ctx.keys.json(key, ctx.now)? else { return Ok(None) };
    Ok(Some(document::parse(text)?))
}

/// Writes a document that is already formatted. Its expiration stays.
pub(super) fn store_text(ctx: &mut Ctx<'_>, key: &[u8], text: String) -> Result<(), Fail> {
    ctx.keys.set_json(key, Bytes::from(text.into_bytes()), Expire::Keep, ctx.now)?;
    Ok(())
}

/// Returns an error if a value of so many bytes at so many locations would make the document, and so its tree, too large. The tree uses
/// about thirty times as much as its text, so copies have a bound of their own.
pub(super) fn check_growth(locations: usize, bytes: usize) -> Result<(), Fail> {
    let bytes_max = if locations > 1 { JSON_COPIED_BYTES_MAX } else { JSON_BYTES_MAX };
    let fits = locations.checked_mul(bytes).is_some_and(|bytes| bytes <= bytes_max);
    if fits { Ok(()) } else { Err(document::Flaw::TooLong.into()) }
}

/// A document that a command is changing.
pub(super) struct Edit {
    before: Bytes,
    pub(super) tree: Value,
    pub(super) path: Path,
    order: Order,
}

/// The result of changing one match: `None` if the value is of another type.
pub(super) type Changed<T> = Result<Option<T>, Fail>;

impl Edit {
    /// The document at the key at index 1, and a path.
    pub(super) fn begin(ctx: &mut Ctx<'_>, args: Args<'_>, path: Path) -> Result<Edit, Fail> {
        let order = order(ctx);
        let before = ctx.keys.json(args.at(1), ctx.now)?.ok_or(NO_DOCUMENT)?.clone();
        let tree = document::parse(&before)?;
        Ok(Edit { before, tree, path, order })
    }

    /// The locations of the matches.
    pub(super) fn locations(&self) -> Result<Vec<Location>, Fail> {
        Ok(self.path.locations(&self.tree, self.order)?.into_iter().map(|(location, _)| location).collect())
    }

    /// Changes each match in place, inner ones before outer ones, and returns the results in the order of the matches. A value that
    /// matches several times is changed once. Each change may add so many bytes to the document.
    pub(super) fn each<T: Clone>(
        &mut self,
        growth_bytes: usize,
        mut change: impl FnMut(&mut Value) -> Changed<T>,
    ) -> Result<Vec<Option<T>>, Fail> {
        let locations = self.locations()?;
        check_growth(locations.len(), growth_bytes)?;
        let mut results: Vec<Option<T>> = vec![None; locations.len()];
        let mut before: Option<usize> = None;
        for at in location::inside_out(&locations) {
            if let Some(same) = before.filter(|before| locations[*before] == locations[at]) {
                results[at] = results[same].clone();
            } else if let Some(value) = location::at_mut(&mut self.tree, &locations[at]) {
                results[at] = change(value)?;
            }
            before = Some(at);
        }
        Ok(results)
    }

    /// Writes the document back if it changed.
    pub(super) fn finish(&self, ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), Fail> {
        let text = document::print(&self.tree)?;
        if text.as_bytes() != self.before.as_slice() {
            store_text(ctx, args.at(1), text)?;
        }
        Ok(())
    }

    /// The reply to a change: one element per match; for a legacy path that of the last value of the right type.
    pub(super) fn reply<T>(
        &self,
        results: Vec<Option<T>>,
        kind: &str,
        to_reply: impl Fn(T) -> Reply,
    ) -> Result<Reply, Fail> {
        if !self.path.is_legacy() {
            let replies = results.into_iter().map(|result| result.map_or(Reply::Nil, &to_reply));
            return Ok(Reply::Array(replies.collect()));
        }
        let last = results.into_iter().flatten().last();
        last.map(to_reply).ok_or_else(|| no_path_or(&self.path, kind))
    }
}
