//! Circles and boxes on the earth: distances from their centre, containment, and the cells to search. It
//! touches nothing.
//!
//! The sums are computed in the same order as in Redis, so that distances are equal to the last bit.

use super::cell::{Area, Cell, Point, STEP_MAX};

const RADIANS: f64 = std::f64::consts::PI / 180.0;
/// The radius of the earth as a sphere, in metres.
const EARTH_RADIUS_M: f64 = 6372797.560856;
/// Half of the length of the equator on the map, in metres.
const MERCATOR_MAX_M: f64 = 20037726.37;

/// The distance between two points, in metres.
pub(super) fn distance_m(a: Point, b: Point) -> f64 {
    let v = ((b.lon * RADIANS - a.lon * RADIANS) / 2.0).sin();
    if v == 0.0 {
        return lat_distance_m(a.lat, b.lat);
    }
    let (a_lat, b_lat) = (a.lat * RADIANS, b.lat * RADIANS);
    let u = ((b_lat - a_lat) / 2.0).sin();
    let haversine = u * u + a_lat.cos() * b_lat.cos() * v * v;
    2.0 * EARTH_RADIUS_M * haversine.sqrt().asin()
}

fn lat_distance_m(a: f64, b: f64) -> f64 {
    EARTH_RADIUS_M * (b * RADIANS - a * RADIANS).abs()
}

/// The extent of a shape, in its unit.
#[derive(Clone, Copy, Debug)]
pub(super) enum Extent {
    Circle { radius: f64 },
    Box { width: f64, height: f64 },
}

/// A circle or box around a point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) centre: Point,
    pub(super) extent: Extent,
    /// Metres per unit.
    pub(super) unit_m: f64,
}

impl Shape {
    /// The distance of a point inside from the centre, in metres; `None` if it is outside.
    pub(super) fn distance_inside_m(&self, point: Point) -> Option<f64> {
        let distance_m = match self.extent {
            Extent::Circle { radius } => {
                let distance_m = distance_m(self.centre, point);
                if distance_m > radius * self.unit_m {
                    return None;
                }
                distance_m
            }
            Extent::Box { width, height } => {
                if lat_distance_m(point.lat, self.centre.lat) > height * self.unit_m / 2.0 {
                    return None;
                }
                let beside = Point { lon: self.centre.lon, lat: point.lat };
                if self::distance_m(point, beside) > width * self.unit_m / 2.0 {
                    return None;
                }
                self::distance_m(self.centre, point)
            }
        };
        Some(distance_m)
    }

    /// The cells to search, in this order: they cover the shape.
    pub(super) fn cells(&self) -> Vec<Cell> {
        let bounds = self.bounds();
        let mut step = self.step();
        let mut cell = Cell::around(self.centre, step);
        if step > 1 && !reaches(cell, &bounds) {
            step -= 1;
            cell = Cell::around(self.centre, step);
        }
        let area = cell.area();
        // A direction is skipped if the middle cell covers the shape there.
        let near = step >= 2;
        let no_south = near && area.lat.start < bounds.lat.start;
        let no_north = near && area.lat.end > bounds.lat.end;
        let no_west = near && area.lon.start < bounds.lon.start;
        let no_east = near && area.lon.end > bounds.lon.end;
        let mut cells = vec![cell];
        // North, south, east, west, and the corners between them.
        for (east, north) in [(0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)] {
            let left_out = (north < 0 && no_south)
                || (north > 0 && no_north)
                || (east < 0 && no_west)
                || (east > 0 && no_east);
            let other = cell.beside(east, north);
            // There are so few large cells that neighbours may be the same.
            let again = cells.len() > 1 && cells.last() == Some(&other);
            if !left_out && !again {
                cells.push(other);
            }
        }
        cells
    }

    /// The bounds of the shape, in degrees.
    fn bounds(&self) -> Area {
        let (width_m, height_m) = match self.extent {
            Extent::Circle { radius } => (self.unit_m * radius, self.unit_m * radius),
            Extent::Box { width, height } => (self.unit_m * width / 2.0, self.unit_m * height / 2.0),
        };
        let Point { lon, lat } = self.centre;
        let lat_delta = height_m / EARTH_RADIUS_M / RADIANS;
        // A degree of longitude is shortest on the side of the pole.
        let widest = if lat < 0.0 { lat - lat_delta } else { lat + lat_delta };
        let lon_delta = width_m / EARTH_RADIUS_M / (widest * RADIANS).cos() / RADIANS;
        Area { lon: lon - lon_delta..lon + lon_delta, lat: lat - lat_delta..lat + lat_delta }
    }

    /// The cell size at which nine cells most probably cover the shape.
    fn step(&self) -> u32 {
        let radius_m = self.unit_m
            * match self.extent {
                Extent::Circle { radius } => radius,
                Extent::Box { width, height } => {
                    ((width / 2.0) * (width / 2.0) + (height / 2.0) * (height / 2.0)).sqrt()
                }
            };
        if radius_m == 0.0 {
            return STEP_MAX;
        }
        let (mut step, mut reach_m) = (-1i32, radius_m);
        while reach_m < MERCATOR_MAX_M {
            reach_m *= 2.0;
            step += 1;
        }
        // Cells are narrower towards the poles.
        let polar = self.centre.lat.abs();
        step -= i32::from(polar > 66.0) + i32::from(polar > 80.0);
        step.clamp(1, STEP_MAX as i32).unsigned_abs()
    }
}

/// Whether the neighbours of a cell reach the bounds.
fn reaches(cell: Cell, bounds: &Area) -> bool {
    let (north, south) = (cell.beside(0, 1).area(), cell.beside(0, -1).area());
    let (east, west) = (cell.beside(1, 0).area(), cell.beside(-1, 0).area());
    // NaN bounds count as reached.
    let short = north.lat.end < bounds.lat.end
        || south.lat.start > bounds.lat.start
        || east.lon.end < bounds.lon.end
        || west.lon.start > bounds.lon.start;
    !short
}

#[cfg(test)]
mod tests {
    use super::*;

    const PALERMO: Point = Point { lon: 13.361_389_338_970_184, lat: 38.115_556_395_496_3 };
    const CATANIA: Point = Point { lon: 15.087_267_458_438_873, lat: 37.502_668_423_331_62 };

    #[test]
    fn distances_are_those_of_redis() {
        assert_eq!(format!("{:.4}", distance_m(PALERMO, CATANIA)), "166274.1516");
        assert_eq!(format!("{:.4}", distance_m(PALERMO, PALERMO)), "0.0000");
    }

    #[test]
    fn cells_cover_what_is_inside() {
        let extents = [Extent::Circle { radius: 200.0 }, Extent::Box { width: 400.0, height: 400.0 }];
        for extent in extents {
            let shape = Shape { centre: PALERMO, extent, unit_m: 1000.0 };
            assert!(shape.distance_inside_m(CATANIA).is_some());
            assert!(shape.distance_inside_m(Point { lon: 0.0, lat: 0.0 }).is_none());
            let score = CATANIA.score();
            assert!(shape.cells().iter().any(|cell| cell.scores().contains(&score)));
        }
    }

    #[test]
    fn steps_are_within_their_bounds() {
        for (radius, lat, step) in [
            (0.0, 0.0, 26),
            (0.1, 0.0, 26),
            (1000.0, 0.0, 14),
            (1000.0, 70.0, 13),
            (1000.0, -81.0, 12),
            (1e9, 81.0, 1),
            (f64::INFINITY, 0.0, 1),
        ] {
            let shape =
                Shape { centre: Point { lon: 0.0, lat }, extent: Extent::Circle { radius }, unit_m: 1.0 };
            assert_eq!(shape.step(), step, "{radius} {lat}");
            assert!(!shape.cells().is_empty());
        }
    }
}
