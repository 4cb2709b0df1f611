//! The arguments of GEOSEARCH, GEORADIUS and similar commands. It touches nothing.

use keystead_model::value::ZSet;

use super::cell::Point;
use super::shape::{Extent, Shape};
use super::unit::{length, point, unit_m};
use crate::args::{Args, Cursor};
use crate::errors::{self, Fail};
use crate::number;

const UNKNOWN_MEMBER: &str = "ERR could not decode requested zset member";
const COUNT_TOO_SMALL: &str = "ERR COUNT must be > 0";
const ANY_WITHOUT_COUNT: &str = "ERR the ANY argument requires COUNT argument";

/// How a command specifies its shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `key longitude latitude radius unit`
    Radius,
    /// `key member radius unit`
    RadiusByMember,
    /// By options.
    Search,
}

/// Whether a command stores its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Storing {
    Never,
    /// When STORE or STOREDIST says so.
    ByOption,
    /// Under the key at index 1.
    Always,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Ascending,
    Descending,
}

/// The parsed arguments.
#[derive(Debug, Default)]
pub(super) struct Query<'a> {
    centre: Option<Point>,
    extent: Option<Extent>,
    /// Metres per unit of distance.
    pub(super) unit_m: f64,
    pub(super) with_distance: bool,
    pub(super) with_hash: bool,
    pub(super) with_point: bool,
    pub(super) order: Option<Order>,
    /// The maximum number of members.
    pub(super) count: Option<usize>,
    /// Any members, not the nearest.
    pub(super) any: bool,
    /// The destination key.
    pub(super) store: Option<&'a [u8]>,
    /// Distances are stored instead of scores.
    pub(super) store_distance: bool,
    from_member: bool,
    from_point: bool,
}

impl<'a> Query<'a> {
    /// Parses everything after the key of the sorted set, at index `key_at`. A member is looked up when it is parsed.
    pub(super) fn parse(
        args: Args<'a>,
        key_at: usize,
        form: Form,
        storing: Storing,
        zset: Option<&ZSet>,
    ) -> Result<Self, Fail> {
        let mut query = Query::default();
        let mut cursor = args.cursor(key_at + 1);
        query.parse_places(&mut cursor, form, zset)?;
        if storing == Storing::Always {
            query.store = Some(args.at(1));
        }
        while !cursor.is_done() {
            let known = query.accept_common(&mut cursor)?
                || (storing == Storing::ByOption && query.accept_store(&mut cursor)?)
                || (storing == Storing::Always && query.accept_store_distance(&mut cursor))
                || (form == Form::Search && query.accept_shape(&mut cursor, zset)?);
            if !known {
                return Err(errors::SYNTAX);
            }
        }
        query.check(args, form)?;
        Ok(query)
    }

    /// The shape, if there is something to search.
    pub(super) fn shape(&self) -> Option<Shape> {
        Some(Shape { centre: self.centre?, extent: self.extent?, unit_m: self.unit_m })
    }

    /// The arguments at fixed positions after the key.
    fn parse_places(&mut self, cursor: &mut Cursor<'a>, form: Form, zset: Option<&ZSet>) -> Result<(), Fail> {
        match form {
            Form::Radius => {
                self.centre = Some(point(cursor.bytes()?, cursor.bytes()?)?);
                self.parse_radius(cursor)
            }
            // Without the key nothing is found, whatever the member and the radius are.
            Form::RadiusByMember if zset.is_none() => {
                for _ in ["member", "radius", "unit"] {
                    cursor.bytes()?;
                }
                Ok(())
            }
            Form::RadiusByMember => {
                self.centre = place(zset, cursor.bytes()?)?;
                self.parse_radius(cursor)
            }
            Form::Search => Ok(()),
        }
    }

    fn parse_radius(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Fail> {
        let radius = length(cursor.bytes()?, "ERR need numeric radius")?;
        if radius < 0.0 {
            return Err(Fail::text("ERR radius cannot be negative"));
        }
        self.unit_m = unit_m(cursor.bytes()?)?;
        self.extent = Some(Extent::Circle { radius });
        Ok(())
    }

    fn parse_box(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Fail> {
        let width = length(cursor.bytes()?, "ERR need numeric width")?;
        let height = length(cursor.bytes()?, "ERR need numeric height")?;
        if width < 0.0 || height < 0.0 {
            return Err(Fail::text("ERR height or width cannot be negative"));
        }
        self.unit_m = unit_m(cursor.bytes()?)?;
        self.extent = Some(Extent::Box { width, height });
        Ok(())
    }

    fn accept_common(&mut self, cursor: &mut Cursor<'a>) -> Result<bool, Fail> {
        if cursor.accept("WITHDIST") {
            self.with_distance = true;
        } else if cursor.accept("WITHHASH") {
            self.with_hash = true;
        } else if cursor.accept("WITHCOORD") {
            self.with_point = true;
        } else if cursor.accept("ANY") {
            self.any = true;
        } else if cursor.accept("ASC") {
            self.order = Some(Order::Ascending);
        } else if cursor.accept("DESC") {
            self.order = Some(Order::Descending);
        } else if cursor.accept_with("COUNT", 1) {
            let count = number::size(cursor.int()?).filter(|count| *count > 0);
            self.count = Some(count.ok_or_else(|| Fail::text(COUNT_TOO_SMALL))?);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn accept_store(&mut self, cursor: &mut Cursor<'a>) -> Result<bool, Fail> {
        if cursor.accept_with("STORE", 1) {
            self.store_distance = false;
        } else if cursor.accept_with("STOREDIST", 1) {
            self.store_distance = true;
        } else {
            return Ok(false);
        }
        self.store = Some(cursor.bytes()?);
        Ok(true)
    }

    fn accept_store_distance(&mut self, cursor: &mut Cursor<'a>) -> bool {
        let accepted = cursor.accept("STOREDIST");
        self.store_distance |= accepted;
        accepted
    }

    /// Exactly one kind of centre, and one kind of extent.
    fn accept_shape(&mut self, cursor: &mut Cursor<'a>, zset: Option<&ZSet>) -> Result<bool, Fail> {
        let is_box = matches!(self.extent, Some(Extent::Box { .. }));
        let is_circle = matches!(self.extent, Some(Extent::Circle { .. }));
        if !self.from_point && cursor.accept_with("FROMMEMBER", 1) {
            self.centre = place(zset, cursor.bytes()?)?;
            self.from_member = true;
        } else if !self.from_member && cursor.accept_with("FROMLONLAT", 2) {
            self.centre = Some(point(cursor.bytes()?, cursor.bytes()?)?);
            self.from_point = true;
        } else if !is_box && cursor.accept_with("BYRADIUS", 2) {
            self.parse_radius(cursor)?;
        } else if !is_circle && cursor.accept_with("BYBOX", 3) {
            self.parse_box(cursor)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Which options exclude or require each other.
    fn check(&self, args: Args<'_>, form: Form) -> Result<(), Fail> {
        let name = || String::from_utf8_lossy(args.name());
        let is_search = form == Form::Search;
        if self.store.is_some() && (self.with_distance || self.with_hash || self.with_point) {
            let what = if is_search { "GEOSEARCHSTORE" } else { "STORE option in GEORADIUS" };
            return Err(Fail::text(format!(
                "ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            )));
        }
        if is_search && !self.from_member && !self.from_point {
            return Err(Fail::text(format!(
                "ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for {}",
                name()
            )));
        }
        if is_search && self.extent.is_none() {
            return Err(Fail::text(format!(
                "ERR exactly one of BYRADIUS and BYBOX can be specified for {}",
                name()
            )));
        }
        if self.any && self.count.is_none() {
            return Err(Fail::text(ANY_WITHOUT_COUNT));
        }
        Ok(())
    }
}

/// The point of a member; `None` without a sorted set.
fn place(zset: Option<&ZSet>, member: &[u8]) -> Result<Option<Point>, Fail> {
    let Some(zset) = zset else { return Ok(None) };
    let score = zset.score(member).ok_or_else(|| Fail::text(UNKNOWN_MEMBER))?;
    Ok(Some(Point::of_score(score)))
}
