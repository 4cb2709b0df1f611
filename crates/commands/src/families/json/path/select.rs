//! Evaluates a path on a tree. It only reads the tree that it is given.
//!
//! Segment by segment: a list of values becomes the list of the values that the segment selects from each. Visits are counted and
//! bounded in proportion to the document, so that a few visits of every value are always allowed.

use serde_json::Value;

use super::{Order, PathFlaw, Segment, Selector};
use crate::bounds::{JSON_MATCHES_MAX, JSON_VISITS_MAX, JSON_VISITS_PER_VALUE};
use crate::families::json::location::{Location, Step};
use crate::meter;

/// The values that the segments select.
pub(super) fn values<'a>(
    segments: &'a [Segment],
    root: &'a Value,
    order: Order,
) -> Result<Vec<&'a Value>, PathFlaw> {
    Walk::new(root, order).within(segments, root)
}

/// The same, with their locations.
pub(super) fn locations<'a>(
    segments: &'a [Segment],
    root: &'a Value,
    order: Order,
) -> Result<Vec<(Location, &'a Value)>, PathFlaw> {
    let mut trail = Trail { links: Vec::new(), kept: true };
    let found = Walk::new(root, order).follow(segments, root, &mut trail)?;
    Ok(found.into_iter().map(|spot| (trail.location(spot.link), spot.value)).collect())
}

/// A value that was found, and its location.
#[derive(Clone, Copy)]
struct Spot<'a> {
    value: &'a Value,
    link: Link,
}

/// The number of a link in a trail; 0 is the root.
type Link = usize;

#[derive(Clone, Copy)]
enum Edge<'a> {
    Name(&'a str),
    Index(usize),
}

/// The locations of found values: each link points to its parent.
struct Trail<'a> {
    links: Vec<(Link, Edge<'a>)>,
    /// Whether locations are requested.
    kept: bool,
}

impl<'a> Trail<'a> {
    fn add(&mut self, before: Link, edge: Edge<'a>) -> Link {
        if self.kept {
            self.links.push((before, edge));
        }
        self.links.len()
    }

    fn location(&self, mut link: Link) -> Location {
        let mut steps = Vec::new();
        while let Some((before, edge)) = link.checked_sub(1).and_then(|at| self.links.get(at)) {
            steps.push(match edge {
                Edge::Name(name) => Step::Name((*name).to_owned()),
                Edge::Index(index) => Step::Index(*index),
            });
            link = *before;
        }
        steps.reverse();
        steps
    }
}

/// One evaluation of a path, including the paths within its filters.
pub(super) struct Walk<'a> {
    pub(super) root: &'a Value,
    order: Order,
    visits: usize,
    visits_max: usize,
    /// Whether the bound has been raised in proportion to the document. Its values are counted only when that matters.
    grown: bool,
}

impl<'a> Walk<'a> {
    fn new(root: &'a Value, order: Order) -> Self {
        Walk { root, order, visits: 0, visits_max: JSON_VISITS_MAX, grown: false }
    }

    /// Counts visits, of this path and of all paths of the command.
    pub(super) fn visit(&mut self, visits: usize) -> Result<(), PathFlaw> {
        self.visits += visits;
        if !meter::steps(visits) {
            return Err(PathFlaw::TooLong);
        }
        if self.visits > self.visits_max && !self.grown {
            self.grown = true;
            self.visits_max += JSON_VISITS_PER_VALUE * values_in(self.root);
        }
        if self.visits > self.visits_max { Err(PathFlaw::TooLong) } else { Ok(()) }
    }

    /// The values that the segments select, from any value.
    pub(super) fn within(
        &mut self,
        segments: &'a [Segment],
        from: &'a Value,
    ) -> Result<Vec<&'a Value>, PathFlaw> {
        let mut trail = Trail { links: Vec::new(), kept: false };
        Ok(self.follow(segments, from, &mut trail)?.into_iter().map(|spot| spot.value).collect())
    }

    fn follow(
        &mut self,
        segments: &'a [Segment],
        from: &'a Value,
        trail: &mut Trail<'a>,
    ) -> Result<Vec<Spot<'a>>, PathFlaw> {
        let mut spots = vec![Spot { value: from, link: 0 }];
        for segment in segments {
            let mut next = Vec::new();
            for spot in spots {
                if segment.descends {
                    self.descend(segment, spot, &mut next, trail)?;
                } else {
                    self.apply(segment, spot, &mut next, trail)?;
                }
            }
            spots = next;
        }
        Ok(spots)
    }

    /// Applies a segment to a value and to all descendants.
    fn descend(
        &mut self,
        segment: &'a Segment,
        spot: Spot<'a>,
        found: &mut Vec<Spot<'a>>,
        trail: &mut Trail<'a>,
    ) -> Result<(), PathFlaw> {
        self.visit(1)?;
        if self.order == Order::OuterFirst {
            self.apply(segment, spot, found, trail)?;
        }
        for (edge, value) in children(spot.value) {
            self.visit(1)?;
            if matches!(value, Value::Array(_) | Value::Object(_)) {
                let (links, matches) = (trail.links.len(), found.len());
                let link = trail.add(spot.link, edge);
                self.descend(segment, Spot { value, link }, found, trail)?;
                if found.len() == matches {
                    trail.links.truncate(links);
                }
            }
        }
        if self.order == Order::InnerFirst {
            self.apply(segment, spot, found, trail)?;
        }
        Ok(())
    }

    /// Applies a segment to one value.
    fn apply(
        &mut self,
        segment: &'a Segment,
        spot: Spot<'a>,
        found: &mut Vec<Spot<'a>>,
        trail: &mut Trail<'a>,
    ) -> Result<(), PathFlaw> {
        for selector in &segment.selectors {
            self.visit(1)?;
            match (selector, spot.value) {
                (Selector::Name(name), Value::Object(members)) => {
                    if let Some(value) = members.get(name) {
                        self.add((Edge::Name(name), value), spot, found, trail)?;
                    }
                }
                (Selector::Index(index), Value::Array(items)) => {
                    if let Some(at) = crate::span::position(*index, items.len()) {
                        self.add((Edge::Index(at), &items[at]), spot, found, trail)?;
                    }
                }
                (Selector::Slice { start, stop, step }, Value::Array(items)) => {
                    for at in slice(*start, *stop, *step, items.len()) {
                        self.add((Edge::Index(at), &items[at]), spot, found, trail)?;
                    }
                }
                (Selector::All, container) => {
                    for child in children(container) {
                        self.add(child, spot, found, trail)?;
                    }
                }
                (Selector::Filter(test), container) => {
                    for child in children(container) {
                        if test.passes(child.1, self)? {
                            self.add(child, spot, found, trail)?;
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        (edge, value): (Edge<'a>, &'a Value),
        spot: Spot<'a>,
        found: &mut Vec<Spot<'a>>,
        trail: &mut Trail<'a>,
    ) -> Result<(), PathFlaw> {
        self.visit(1)?;
        if found.len() == JSON_MATCHES_MAX {
            return Err(PathFlaw::TooMany);
        }
        found.push(Spot { value, link: trail.add(spot.link, edge) });
        Ok(())
    }
}

/// The children of a container; none for other values.
fn children(value: &Value) -> impl Iterator<Item = (Edge<'_>, &Value)> {
    let (items, members) = match value {
        Value::Array(items) => (Some(items), None),
        Value::Object(members) => (None, Some(members)),
        _ => (None, None),
    };
    let items = items.into_iter().flatten().enumerate().map(|(index, item)| (Edge::Index(index), item));
    items.chain(members.into_iter().flatten().map(|(name, member)| (Edge::Name(name), member)))
}

/// The number of values in a value, including itself.
fn values_in(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(values_in).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(values_in).sum::<usize>(),
        _ => 1,
    }
}

/// The indices of a slice, as RFC 9535 counts them.
fn slice(start: Option<i64>, stop: Option<i64>, step: i64, len: usize) -> impl Iterator<Item = usize> {
    let len = len as i64;
    let from_start = |index: i64| if index < 0 { index + len } else { index };
    let (mut at, end) = if step >= 0 {
        let bound = |index: i64| from_start(index).clamp(0, len);
        (start.map_or(0, bound), stop.map_or(len, bound))
    } else {
        let bound = |index: i64| from_start(index).clamp(-1, len - 1);
        (start.map_or(len - 1, bound), stop.map_or(-1, bound))
    };
    std::iter::from_fn(move || {
        let more = (step > 0 && at < end) || (step < 0 && at > end);
        let now = usize::try_from(at).ok().filter(|_| more)?;
        at += step;
        Some(now)
    })
}
