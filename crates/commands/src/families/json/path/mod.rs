//! Paths into documents: what they select. They only read the tree that they are given.
//!
//! The language is RFC 9535 with the extensions of RedisJSON: names of more characters without quotes (`$.a-b`), a dot before a
//! bracket (`$.[0]`), `=~` for regular expressions, and the legacy form without `$` that means one value. It is implemented
//! here because the crates for it have no bounds: a path of a few bytes (`$..*..*..*`) can select more than fits in
//! memory. Here the length of a path, its nesting, the values it may visit and the number of matches are bounded, all in
//! `bounds`. The tests compare with `serde_json_path`.

mod compare;
mod filter;
mod parse;
mod regex;
mod select;
#[cfg(test)]
mod tests;

use serde_json::Value;

use self::filter::Test;
use super::location::Location;
use crate::errors::Fail;

/// Whether `..` returns deeper values after those above, or before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As defined by RFC 9535, and in RedisJSON.
    #[default]
    OuterFirst,
    /// As in Upstash.
    InnerFirst,
}

/// A parsed path.
#[derive(Debug)]
pub struct Path {
    segments: Vec<Segment>,
    /// Whether it was written without `$` and means one value.
    legacy: bool,
    /// With `$`, as errors show it.
    text: String,
}

/// One segment of a path.
#[derive(Debug)]
struct Segment {
    /// Whether it also applies to all descendants (`..`).
    descends: bool,
    selectors: Vec<Selector>,
}

#[derive(Debug)]
enum Selector {
    Name(String),
    Index(i64),
    Slice { start: Option<i64>, stop: Option<i64>, step: i64 },
    All,
    Filter(Test),
}

/// Why a path cannot be evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathFlaw {
    /// A syntax error: at which byte, and why.
    NotPath(usize, &'static str),
    /// It would visit too many values.
    TooLong,
    /// It selects too many values.
    TooMany,
}

impl From<PathFlaw> for Fail {
    fn from(flaw: PathFlaw) -> Self {
        match flaw {
            PathFlaw::NotPath(at, why) => Fail::text(format!("ERR Error occurred on position {at}, {why}")),
            PathFlaw::TooLong => Fail::fixed("ERR path visits too many values"),
            PathFlaw::TooMany => Fail::fixed("ERR path selects too many values"),
        }
    }
}

impl Path {
    /// Parses a path, in either form.
    ///
    /// # Errors
    /// When it is not a path.
    pub fn read(text: &[u8]) -> Result<Path, PathFlaw> {
        let text = std::str::from_utf8(text)
            .map_err(|error| PathFlaw::NotPath(error.valid_up_to(), "expected UTF-8"))?;
        let legacy = !(text == "$" || text.starts_with("$.") || text.starts_with("$["));
        let text = match text {
            _ if !legacy => text.to_owned(),
            "." => "$".to_owned(),
            _ if text.starts_with('.') => format!("${text}"),
            _ => format!("$.{text}"),
        };
        let segments = parse::segments(&text)?;
        Ok(Path { segments, legacy, text })
    }

    /// The root, in the legacy form: the default path.
    #[must_use]
    pub fn root() -> Path {
        Path { segments: Vec::new(), legacy: true, text: "$".to_owned() }
    }

    /// Whether it means one value, not all matches.
    #[must_use]
    pub fn is_legacy(&self) -> bool {
        self.legacy
    }

    /// Whether it is the root.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.segments.is_empty()
    }

    /// The path with `$`, as errors show it.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it can match one location only: no wildcards, filters, slices, lists or `..`.
    #[must_use]
    pub fn is_static(&self) -> bool {
        self.segments.iter().all(|segment| segment.single().is_some())
    }

    /// The path to the container, and the name of the member in it, if the last segment is a name.
    #[must_use]
    pub fn split_name(&self) -> Option<(Parent<'_>, &str)> {
        let (last, parent) = self.segments.split_last()?;
        match last.single()? {
            Selector::Name(name) => Some((Parent(parent), name)),
            _ => None,
        }
    }

    /// The values that match.
    ///
    /// # Errors
    /// When there are too many, or too many values have to be visited.
    pub fn values<'a>(&'a self, root: &'a Value, order: Order) -> Result<Vec<&'a Value>, PathFlaw> {
        select::values(&self.segments, root, order)
    }

    /// The locations of the values that match, with the values.
    ///
    /// # Errors
    /// As [`values`](Path::values).
    pub fn locations<'a>(
        &'a self,
        root: &'a Value,
        order: Order,
    ) -> Result<Vec<(Location, &'a Value)>, PathFlaw> {
        select::locations(&self.segments, root, order)
    }
}

/// A path without its last segment.
#[derive(Clone, Copy, Debug)]
pub struct Parent<'p>(&'p [Segment]);

impl Parent<'_> {
    /// The locations of the values that match, with the values.
    ///
    /// # Errors
    /// As [`Path::values`].
    pub fn locations<'a>(
        &'a self,
        root: &'a Value,
        order: Order,
    ) -> Result<Vec<(Location, &'a Value)>, PathFlaw> {
        select::locations(self.0, root, order)
    }
}

impl Segment {
    /// Its selector, if it selects at most one value.
    fn single(&self) -> Option<&Selector> {
        match &*self.selectors {
            [selector @ (Selector::Name(_) | Selector::Index(_))] if !self.descends => Some(selector),
            _ => None,
        }
    }
}
