//! Longitudes, latitudes, distances and units as arguments, and distances and coordinates as texts. It touches nothing.

use super::cell::{LAT_MAX, LON_MAX, Point};
use crate::errors::{self, Fail};
use crate::number;
use crate::reply::Reply;

const UNKNOWN_UNIT: &str = "ERR unsupported unit provided. please use M, KM, FT, MI";

/// Metres per unit.
pub(super) fn unit_m(text: &[u8]) -> Result<f64, Fail> {
    let units: [(&[u8], f64); 4] = [(b"m", 1.0), (b"km", 1000.0), (b"ft", 0.3048), (b"mi", 1609.34)];
    let unit = units.iter().find(|(name, _)| text.eq_ignore_ascii_case(name));
    unit.map(|(_, metres)| *metres).ok_or_else(|| Fail::text(UNKNOWN_UNIT))
}

/// A longitude and a latitude.
pub(super) fn point(lon: &[u8], lat: &[u8]) -> Result<Point, Fail> {
    let lon = number::parse_float(lon).ok_or(errors::NOT_FLOAT)?;
    let lat = number::parse_float(lat).ok_or(errors::NOT_FLOAT)?;
    if lon.abs() > LON_MAX || lat.abs() > LAT_MAX {
        return Err(Fail::text(format!("ERR invalid longitude,latitude pair {lon:.6},{lat:.6}")));
    }
    Ok(Point { lon, lat })
}

/// A length in some unit.
pub(super) fn length(text: &[u8], error: &'static str) -> Result<f64, Fail> {
    number::parse_float(text).ok_or_else(|| Fail::text(error))
}

/// A distance, with four digits after the point.
pub(super) fn distance_reply(distance: f64) -> Reply {
    Reply::text(format!("{distance:.4}"))
}

/// A longitude and a latitude.
pub(super) fn point_reply(point: Point) -> Reply {
    Reply::Array(vec![Reply::Number(degrees(point.lon)), Reply::Number(degrees(point.lat))])
}

/// Degrees with up to 17 digits after the point.
fn degrees(value: f64) -> String {
    let text = format!("{value:.17}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn degrees_are_written_in_full() {
        for (value, text) in [
            (13.361_389_338_970_184, "13.36138933897018433"),
            (180.0, "180"),
            (-0.0, "0"),
            (-1e-20, "0"),
            (1.5, "1.5"),
            (100.0, "100"),
        ] {
            assert_eq!(degrees(value), text);
        }
    }

    #[test]
    fn units_and_points_are_checked() {
        assert_eq!(unit_m(b"KM").unwrap(), 1000.0);
        assert_eq!(unit_m(b"yd").unwrap_err(), Fail::text(UNKNOWN_UNIT));
        let wrong = "ERR invalid longitude,latitude pair 0.000000,86.000000";
        assert_eq!(point(b"0", b"86").unwrap_err(), Fail::text(wrong));
        assert_eq!(point(b"181", b"x").unwrap_err(), errors::NOT_FLOAT);
    }
}
