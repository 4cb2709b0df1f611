//! Intersection, union and difference of sets. It only reads the keyspace.

use std::ops::ControlFlow;

use foldhash::fast::RandomState;
use hashbrown::HashSet;
use keystead_model::value::{Set, Value};

use crate::Ctx;
use crate::errors::{self, Fail};

/// The set operation.
#[derive(Clone, Copy)]
pub(super) enum How {
    /// The intersection.
    Intersect,
    /// The union.
    Unite,
    /// The difference: members of the first set only.
    Subtract,
}

/// The sets at these keys, `None` for an absent key.
///
/// All of them are checked first: a key of another type is an error at any position.
fn sets<'c, 'k>(
    ctx: &'c mut Ctx<'_>,
    keys: impl Iterator<Item = &'k [u8]> + Clone,
) -> Result<Vec<Option<&'c Set>>, Fail> {
    for key in keys.clone() {
        ctx.keys.settle(key, ctx.now)?;
    }
    let (space, now) = (&*ctx.keys, ctx.now);
    keys.map(|key| match space.peek(key, now) {
        None => Ok(None),
        Some(Value::Set(set)) => Ok(Some(set)),
        Some(_) => Err(errors::WRONG_TYPE),
    })
    .collect()
}

/// Visits each member of the result once, until `visit` breaks.
pub(super) fn each<'k>(
    ctx: &mut Ctx<'_>,
    how: How,
    keys: impl Iterator<Item = &'k [u8]> + Clone,
    mut visit: impl FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<(), Fail> {
    let sets = sets(ctx, keys)?;
    // Ending early is not an error.
    let _ = match how {
        How::Intersect => intersect(sets, &mut visit),
        How::Unite => unite(&sets, &mut visit),
        How::Subtract => subtract(&sets, &mut visit),
    };
    Ok(())
}

type Visit<'v> = &'v mut dyn FnMut(&[u8]) -> ControlFlow<()>;

fn intersect(sets: Vec<Option<&Set>>, visit: Visit<'_>) -> ControlFlow<()> {
    let Some(mut sets) = sets.into_iter().collect::<Option<Vec<&Set>>>() else {
        return ControlFlow::Continue(());
    };
    // The smallest set determines how many members are examined.
    sets.sort_by_key(|set| set.len());
    let Some((smallest, others)) = sets.split_first() else {
        return ControlFlow::Continue(());
    };
    smallest.iter().filter(|member| others.iter().all(|set| set.contains(member))).try_for_each(visit)
}

fn unite(sets: &[Option<&Set>], visit: Visit<'_>) -> ControlFlow<()> {
    let mut sets = sets.iter().flatten().filter(|set| !set.is_empty());
    let (Some(first), second) = (sets.next(), sets.next()) else {
        return ControlFlow::Continue(());
    };
    first.iter().try_for_each(&mut *visit)?;
    let Some(second) = second else {
        return ControlFlow::Continue(());
    };
    let mut seen: HashSet<&[u8], RandomState> = HashSet::default();
    for set in std::iter::once(second).chain(sets) {
        for member in set.iter() {
            if !first.contains(member) && seen.insert(member) {
                visit(member)?;
            }
        }
    }
    ControlFlow::Continue(())
}

fn subtract(sets: &[Option<&Set>], visit: Visit<'_>) -> ControlFlow<()> {
    let Some((Some(first), others)) = sets.split_first() else {
        return ControlFlow::Continue(());
    };
    let others: Vec<&Set> = others.iter().copied().flatten().collect();
    first.iter().filter(|member| !others.iter().any(|set| set.contains(member))).try_for_each(visit)
}
