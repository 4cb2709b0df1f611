//! `quota`: a budget that resets on a calendar boundary (month, week, day) or every period from an anchor.
//!
//! Calendars have a fixed offset from UTC without daylight saving time, so that all nodes decide alike. A `rolling` quota is a sliding
//! window.

use keystead_core::{Code, Error, Millis, Result, Script};

use super::{AnyStrategy, Ask, Kind, Ruling, SlidingWindow, Spent, Strategy, Windowed, script, window};
use crate::bounds::OFFSET_MINUTES_MAX;
use crate::policy::{Fields, check};

pub(super) const KIND: Kind = Kind {
    name: "quota",
    required: &["limit", "resetCadence"],
    optional: &["periodMs", "anchor", "offsetMinutes", "weekStartsOn", "buckets"],
    about: "a budget that begins anew each month, week, day or period",
    example: r#"{"kind":"quota","limit":5,"resetCadence":"calendar-day"}"#,
    build,
};

const DAY_MS: f64 = 86_400_000.0;

/// When a quota resets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cadence {
    /// On the first of the month.
    CalendarMonth,
    /// On this day of the week, 0 is Sunday.
    CalendarWeek {
        /// The first day of the week.
        starts_on: u8,
    },
    /// At midnight.
    CalendarDay,
    /// Every so many milliseconds, counted from an anchor.
    Fixed {
        /// How long a period is.
        period_ms: u64,
        /// The start of a period, in milliseconds since the epoch.
        anchor: u64,
    },
}

/// `limit` units until the next boundary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quota {
    limit: u64,
    cadence: Cadence,
    offset_ms: f64,
}

impl Quota {
    /// `limit` units between boundaries, on a calendar that is `offset_minutes` ahead of UTC.
    ///
    /// # Errors
    /// `config_invalid` when a number is out of range.
    pub fn new(limit: u64, cadence: Cadence, offset_minutes: i64) -> Result<Self> {
        let limit = check::whole("limit", limit)?;
        match cadence {
            Cadence::CalendarWeek { starts_on } => {
                check::between("weekStartsOn", i64::from(starts_on), 0, 6)?;
            }
            Cadence::Fixed { period_ms, anchor } => {
                check::span_ms("periodMs", period_ms)?;
                check::moment("anchor", anchor)?;
            }
            Cadence::CalendarMonth | Cadence::CalendarDay => {}
        }
        check::between("offsetMinutes", offset_minutes, -OFFSET_MINUTES_MAX, OFFSET_MINUTES_MAX)?;
        Ok(Quota { limit, cadence, offset_ms: offset_minutes as f64 * 60_000.0 })
    }
}

fn build(fields: &mut Fields<'_>) -> Result<AnyStrategy> {
    let limit = fields.whole("limit")?;
    let name = fields.text("resetCadence")?;
    // Each cadence has fields of its own; a field that it does not use is rejected, since it would have no effect.
    let cadence = match name.as_str() {
        "calendar-month" => Cadence::CalendarMonth,
        "calendar-week" => {
            let starts_on = fields.integer_if("weekStartsOn")?.unwrap_or(1);
            check::between("weekStartsOn", starts_on, 0, 6)?;
            Cadence::CalendarWeek { starts_on: starts_on as u8 }
        }
        "calendar-day" => Cadence::CalendarDay,
        "fixed" => Cadence::Fixed {
            period_ms: fields.span_ms("periodMs")?,
            anchor: fields.whole_if("anchor")?.unwrap_or(0),
        },
        "rolling" => {
            let (period_ms, buckets) = (fields.span_ms("periodMs")?, fields.whole_if("buckets")?);
            fields.reject_rest("a rolling quota")?;
            check::span_ms("periodMs", period_ms)?;
            return Ok(AnyStrategy::SlidingWindow(SlidingWindow::new(limit, period_ms, buckets)?));
        }
        other => {
            return Err(Error::new(
                Code::ConfigInvalid,
                format!(
                    "resetCadence must be calendar-month, calendar-week, calendar-day, fixed or rolling, not '{other}'"
                ),
            ));
        }
    };
    let offset = match cadence {
        Cadence::Fixed { .. } => 0,
        _ => fields.integer_if("offsetMinutes")?.unwrap_or(0),
    };
    fields.reject_rest(&format!("a {name} quota"))?;
    Ok(AnyStrategy::Quota(Quota::new(limit, cadence, offset)?))
}

impl Windowed for Quota {
    fn window(&self, now: i64) -> (i64, i64) {
        let now = now as f64;
        if let Cadence::Fixed { period_ms, anchor } = self.cadence {
            let (period_ms, anchor) = (period_ms as f64, anchor as f64);
            let start = anchor + ((now - anchor) / period_ms).floor() * period_ms;
            return (start as i64, (start + period_ms) as i64);
        }
        let day = ((now + self.offset_ms) / DAY_MS).floor() as i64;
        let (first, next) = match self.cadence {
            Cadence::CalendarMonth => month(day),
            Cadence::CalendarWeek { starts_on } => {
                // The first of January 1970 was a Thursday, day 4.
                let first = day - (day + 4 - i64::from(starts_on)).rem_euclid(7);
                (first, first + 7)
            }
            _ => (day, day + 1),
        };
        let begins = |day: i64| (day as f64 * DAY_MS - self.offset_ms) as i64;
        (begins(first), begins(next))
    }
}

impl Strategy for Quota {
    type State = (u64, u64);

    fn limit(&self) -> u64 {
        self.limit
    }

    fn decide(&self, state: Option<&(u64, u64)>, now: Millis, ask: &Ask) -> Ruling<(u64, u64)> {
        window::decide(self, state, now, ask)
    }

    fn refund(&self, state: &(u64, u64), spent: &Spent, _now: Millis, ask: &Ask) -> Option<(u64, u64)> {
        window::refund(self, state, spent, ask)
    }

    fn charge(&self, state: Option<&(u64, u64)>, now: Millis, ask: &Ask) -> Option<((u64, u64), u64)> {
        Quota { limit: u64::MAX, ..*self }.decide(state, now, ask).put
    }

    fn window_ms(&self) -> f64 {
        match self.cadence {
            Cadence::CalendarMonth => 30.0 * DAY_MS,
            Cadence::CalendarWeek { .. } => 7.0 * DAY_MS,
            Cadence::CalendarDay => DAY_MS,
            Cadence::Fixed { period_ms, .. } => period_ms as f64,
        }
    }

    fn script(&self, ask: &Ask) -> Option<Script> {
        const SOURCE: &[&str] = &[include_str!("quota.lua"), window::SCRIPT];
        let (cadence, first, second) = match self.cadence {
            Cadence::CalendarMonth => ("month", 0, 0),
            Cadence::CalendarWeek { starts_on } => ("week", u64::from(starts_on), 0),
            Cadence::CalendarDay => ("day", 0, 0),
            Cadence::Fixed { period_ms, anchor } => ("fixed", period_ms, anchor),
        };
        let (cost, limit) = (ask.cost.into(), self.limit.into());
        let args = [cost, limit, cadence.into(), self.offset_ms.into(), first.into(), second.into()];
        Some(script("quota", SOURCE, args))
    }
}

/// The first day of the month that `day` lies in, and of the next one, in days since the epoch.
fn month(day: i64) -> (i64, i64) {
    let (mut year, mut month) = (1970 + day.div_euclid(366), 1);
    // An estimate with 366 days a year, which is too early by a few years at most.
    while first_of(year + 1, 1) <= day {
        year += 1;
    }
    while month < 12 && first_of(year, month + 1) <= day {
        month += 1;
    }
    let next = if month == 12 { first_of(year + 1, 1) } else { first_of(year, month + 1) };
    (first_of(year, month), next)
}

/// The day on which a month begins, in days since the epoch.
fn first_of(year: i64, month: i64) -> i64 {
    const DAYS_BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let leap_years_before =
        |year: i64| (year - 1).div_euclid(4) - (year - 1).div_euclid(100) + (year - 1).div_euclid(400);
    let is_leap = year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0);
    365 * (year - 1970)
        + (leap_years_before(year) - leap_years_before(1970))
        + DAYS_BEFORE[(month - 1) as usize]
        + i64::from(is_leap && month > 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::testing::{Lab, allow, deny, rejected};

    /// 2024-02-29 12:00:00 UTC, a Thursday.
    const LEAP_DAY: u64 = 1_709_208_000_000;
    const HOUR: u64 = 3_600_000;

    #[test]
    fn a_month_ends_where_the_calendar_says() {
        let mut lab = Lab::new(Quota::new(5, Cadence::CalendarMonth, 0).unwrap());
        let march = LEAP_DAY + 12 * HOUR;
        assert_eq!(lab.check(LEAP_DAY, 5), allow(5, 0, march));
        assert_eq!(lab.check(march - 1, 1), deny(5, 0, march, 1));
        let april = march + 31 * 24 * HOUR;
        assert_eq!(lab.check(march, 1), allow(5, 4, april));
        assert_eq!(lab.ttl_ms(), 31 * 24 * HOUR);
    }

    #[test]
    fn an_offset_moves_the_boundary() {
        let mut ahead = Lab::new(Quota::new(5, Cadence::CalendarDay, 120).unwrap());
        assert_eq!(ahead.check(LEAP_DAY, 1), allow(5, 4, LEAP_DAY + 10 * HOUR));
        let mut behind = Lab::new(Quota::new(5, Cadence::CalendarDay, -300).unwrap());
        assert_eq!(behind.check(LEAP_DAY, 1), allow(5, 4, LEAP_DAY + 17 * HOUR));
    }

    #[test]
    fn a_week_begins_on_its_day() {
        // Noon of a Thursday; the next midnight that begins each day of the week.
        for (starts_on, days) in [(0, 3), (1, 4), (2, 5), (3, 6), (4, 7), (5, 1), (6, 2)] {
            let mut lab = Lab::new(Quota::new(5, Cadence::CalendarWeek { starts_on }, 0).unwrap());
            assert_eq!(
                lab.check(LEAP_DAY, 1).reset_at,
                LEAP_DAY - 12 * HOUR + days * 24 * HOUR,
                "{starts_on}"
            );
        }
    }

    #[test]
    fn a_period_is_counted_from_its_anchor() {
        let cadence = Cadence::Fixed { period_ms: 1000, anchor: 250 };
        let mut lab = Lab::new(Quota::new(2, cadence, 0).unwrap());
        assert_eq!(lab.check(100, 2), allow(2, 0, 250), "also before the anchor");
        assert_eq!(lab.check(249, 1), deny(2, 0, 250, 1));
        assert_eq!(lab.check(250, 1), allow(2, 1, 1250));
    }

    #[test]
    fn months_agree_with_a_walk_through_the_calendar() {
        let (mut day, mut year) = (0i64, 1970);
        while year < 2500 {
            let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            for days in [31, 28 + i64::from(is_leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
                for at in [day, day + 14, day + days - 1] {
                    assert_eq!(month(at), (day, day + days), "{year}");
                }
                day += days;
            }
            year += 1;
        }
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        let week = |starts_on| Cadence::CalendarWeek { starts_on };
        let fixed = |period_ms, anchor| Cadence::Fixed { period_ms, anchor };
        rejected(Quota::new(0, Cadence::CalendarDay, 0), "limit must be");
        rejected(Quota::new(1, week(7), 0), "weekStartsOn must be");
        rejected(Quota::new(1, Cadence::CalendarDay, 841), "offsetMinutes must be");
        rejected(Quota::new(1, Cadence::CalendarDay, -841), "offsetMinutes must be");
        rejected(Quota::new(1, fixed(0, 0), 0), "periodMs must be");
        rejected(Quota::new(1, fixed(1, u64::MAX), 0), "anchor must be");
    }
}
