//! Cells of the earth's surface, and the 52 bits that are the score of a member: the bits of latitude and longitude
//! interleaved, so that nearby cells mostly have nearby scores. It touches nothing.

use std::ops::Range;

/// The highest longitude; the lowest is its opposite.
pub(super) const LON_MAX: f64 = 180.0;
/// The highest latitude of a square map; the lowest is its opposite.
pub(super) const LAT_MAX: f64 = 85.05112878;
/// How often the world is halved, in each direction, for a score.
pub(super) const STEP_MAX: u32 = 26;

const SCORE_BITS: u32 = 2 * STEP_MAX;

/// A point on the earth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) lon: f64,
    pub(super) lat: f64,
}

impl Point {
    /// The score of a member at this point.
    pub(super) fn score(self) -> f64 {
        Cell::around(self, STEP_MAX).bits() as f64
    }

    /// The point of a member with this score: the centre of a tiny cell. Every number is a valid score.
    pub(super) fn of_score(score: f64) -> Point {
        let bits = bits_of(score);
        let area = Cell { lat: gathered(bits), lon: gathered(bits >> 1), step: STEP_MAX }.area();
        Point {
            lon: ((area.lon.start + area.lon.end) / 2.0).clamp(-LON_MAX, LON_MAX),
            lat: ((area.lat.start + area.lat.end) / 2.0).clamp(-LAT_MAX, LAT_MAX),
        }
    }
}

/// The cell at these coordinates out of 2^step, from the west and from the south.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) lon: u32,
    pub(super) lat: u32,
    pub(super) step: u32,
}

/// The bounds of a cell, in degrees.
#[derive(Clone, Debug)]
pub(super) struct Area {
    pub(super) lon: Range<f64>,
    pub(super) lat: Range<f64>,
}

impl Cell {
    /// The cell that contains a point.
    pub(super) fn around(point: Point, step: u32) -> Cell {
        Cell::within(point, step, LAT_MAX)
    }

    /// The cell that contains a point, on a map up to another latitude.
    pub(super) fn within(point: Point, step: u32, lat_max: f64) -> Cell {
        let parts = (1u64 << step) as f64;
        let lat = (point.lat + lat_max) / (lat_max + lat_max) * parts;
        let lon = (point.lon + LON_MAX) / (LON_MAX + LON_MAX) * parts;
        Cell { lon: lon as u32, lat: lat as u32, step }
    }

    /// The bits of both numbers interleaved, that of the longitude first.
    pub(super) fn bits(self) -> u64 {
        spread(self.lat) | spread(self.lon) << 1
    }

    /// The scores of members in this cell.
    pub(super) fn scores(self) -> Range<f64> {
        let shift = SCORE_BITS - 2 * self.step;
        ((self.bits() << shift) as f64)..(((self.bits() + 1) << shift) as f64)
    }

    pub(super) fn area(self) -> Area {
        let parts = (1u64 << self.step) as f64;
        let at = |number: u32, max: f64| -max + f64::from(number) / parts * (max + max);
        Area {
            lon: at(self.lon, LON_MAX)..at(self.lon.wrapping_add(1), LON_MAX),
            lat: at(self.lat, LAT_MAX)..at(self.lat.wrapping_add(1), LAT_MAX),
        }
    }

    /// The cell so many to the east and to the north. The map wraps around.
    pub(super) fn beside(self, east: i32, north: i32) -> Cell {
        let mask = (1u32 << self.step) - 1;
        let moved =
            |number: u32, by: i32| if by == 0 { number } else { number.wrapping_add_signed(by) & mask };
        Cell { lon: moved(self.lon, east), lat: moved(self.lat, north), step: self.step }
    }
}

/// A score as bits. Scores outside the range are converted as by the processors that Redis runs on.
fn bits_of(score: f64) -> u64 {
    const TOO_LARGE: f64 = u64::MAX as f64;
    if score < 0.0 {
        score as i64 as u64
    } else if score < TOO_LARGE {
        score as u64
    } else {
        0
    }
}

/// The bits of a number with a zero before each.
fn spread(number: u32) -> u64 {
    let mut bits = u64::from(number);
    bits = (bits | bits << 16) & 0x0000_FFFF_0000_FFFF;
    bits = (bits | bits << 8) & 0x00FF_00FF_00FF_00FF;
    bits = (bits | bits << 4) & 0x0F0F_0F0F_0F0F_0F0F;
    bits = (bits | bits << 2) & 0x3333_3333_3333_3333;
    (bits | bits << 1) & 0x5555_5555_5555_5555
}

/// Every second bit, from the lowest on.
fn gathered(bits: u64) -> u32 {
    let mut bits = bits & 0x5555_5555_5555_5555;
    bits = (bits | bits >> 1) & 0x3333_3333_3333_3333;
    bits = (bits | bits >> 2) & 0x0F0F_0F0F_0F0F_0F0F;
    bits = (bits | bits >> 4) & 0x00FF_00FF_00FF_00FF;
    bits = (bits | bits >> 8) & 0x0000_FFFF_0000_FFFF;
    (bits | bits >> 16) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_spread_and_gathered() {
        for number in [0, 1, 0b1011, 0x1234_5678, u32::MAX] {
            assert_eq!(gathered(spread(number)), number);
            assert_eq!(gathered(spread(number) << 1), 0);
        }
        assert_eq!(spread(0b1011), 0b100_0101);
    }

    #[test]
    fn scores_are_those_of_redis() {
        let palermo = Point { lon: 13.361389, lat: 38.115556 };
        assert_eq!(palermo.score(), 3_479_099_956_230_698.0);
        let found = Point::of_score(palermo.score());
        assert_eq!(found, Point { lon: 13.361_389_338_970_184, lat: 38.115_556_395_496_3 });
        assert_eq!(Point { lon: -LON_MAX, lat: -LAT_MAX }.score(), 0.0);
    }

    #[test]
    fn every_score_has_a_point() {
        for score in [f64::NEG_INFINITY, -1.5, 0.0, 1e15, 1e16, 1e19, 1e20, f64::INFINITY] {
            let point = Point::of_score(score);
            assert!(point.lon.abs() <= LON_MAX && point.lat.abs() <= LAT_MAX, "{score} {point:?}");
        }
    }

    #[test]
    fn beyond_an_edge_is_the_opposite_one() {
        let corner = Cell { lon: 0, lat: 3, step: 2 };
        assert_eq!(corner.beside(-1, 1), Cell { lon: 3, lat: 0, step: 2 });
        assert_eq!(corner.beside(1, 0), Cell { lon: 1, lat: 3, step: 2 });
        assert_eq!(corner.scores(), (0b0101u64 << 48) as f64..(0b0110u64 << 48) as f64);
    }
}
