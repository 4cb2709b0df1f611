//! A hierarchical timing wheel: finding the due entries costs O(due), whatever the number of scheduled entries.
//!
//! Six levels of 64 slots; a slot of level `n` is 64^n ticks wide. Each slot is a doubly linked list threaded
//! through one array indexed by entry, so scheduling and cancelling are O(1) and need no allocation per entry.
//!
//! The wheel may hold an entry at an *earlier* time than it is due: at that time it asks for the actual time
//! and reschedules the entry. So postponing an expiry costs nothing. The wheel only reclaims; no result depends on it.
//!
//! It runs forward. When the clock jumps back by more than [`SLACK_TICKS`], all entries are rescheduled: the only
//! operation that costs O(entries), needed because otherwise nothing would be reclaimed until the old time is reached again.

use super::Id;
use crate::clock::Millis;

const TICK_MS: u64 = 16;
const LEVELS: usize = 6;
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
/// One slot of the last level less than a full rotation, so that a slot never mixes two rotations.
const REACH_TICKS: u64 = (SLOTS as u64 - 1) << (SLOT_BITS * (LEVELS as u32 - 1));
const SLACK_TICKS: u64 = 4096;
const NONE: u32 = u32::MAX;
/// Links that an empty wheel keeps.
const LINKS_KEPT: usize = 1024;

/// Entries by the time they are due.
pub struct Wheel {
    /// Every entry due before this tick has been returned.
    tick: u64,
    /// A bit for each slot that is not empty.
    occupied: [u64; LEVELS],
    heads: [[Id; SLOTS]; LEVELS],
    links: Vec<Link>,
    len: usize,
    /// Nothing is due at `tick`, so a repeated call at the same tick is one comparison.
    idle: bool,
}

#[derive(Clone, Copy)]
struct Link {
    prev: Id,
    next: Id,
    /// Level and slot, or `NONE` when the entry is not scheduled.
    slot: u32,
}

impl Default for Wheel {
    fn default() -> Self {
        Wheel::new()
    }
}

impl Wheel {
    /// An empty wheel.
    #[must_use]
    pub fn new() -> Self {
        Wheel {
            tick: 0,
            occupied: [0; LEVELS],
            heads: [[NONE; SLOTS]; LEVELS],
            links: Vec::new(),
            len: 0,
            idle: false,
        }
    }

    /// Number of scheduled entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no entry is scheduled.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether nothing can be due at `now`, by one comparison; `false` means unknown.
    #[inline]
    #[must_use]
    pub fn is_idle_at(&self, now: Millis) -> bool {
        self.idle && now.0 / TICK_MS == self.tick
    }

    /// Schedules `id` for `at`, replacing its earlier schedule.
    pub fn schedule(&mut self, id: Id, at: Millis) {
        self.cancel(id);
        if self.links.len() <= id as usize {
            self.links.resize(id as usize + 1, Link { prev: NONE, next: NONE, slot: NONE });
        }
        self.link(id, at);
    }

    /// Removes `id` from the schedule.
    pub fn cancel(&mut self, id: Id) {
        let Some(&Link { prev, next, slot }) = self.links.get(id as usize) else {
            return;
        };
        if slot == NONE {
            return;
        }
        let (level, index) = (slot as usize / SLOTS, slot as usize % SLOTS);
        match prev {
            NONE => self.heads[level][index] = next,
            prev => self.links[prev as usize].next = next,
        }
        if next != NONE {
            self.links[next as usize].prev = prev;
        }
        if self.heads[level][index] == NONE {
            self.occupied[level] &= !(1 << index);
        }
        self.links[id as usize].slot = NONE;
        self.len -= 1;
    }

    /// Frees most memory of an empty wheel.
    pub(super) fn shrink(&mut self) {
        if self.is_empty() {
            self.links.truncate(LINKS_KEPT);
            self.links.shrink_to(LINKS_KEPT);
        }
    }

    /// Removes and returns the next entry that is due at `now`. `due_at` returns when an entry is actually due; one that is due
    /// later is rescheduled, one that is never due is dropped. Each entry that is checked costs one of `budget`.
    pub fn pop_due(&mut self, now: Millis, budget: &mut usize, due_at: impl Fn(Id) -> Millis) -> Option<Id> {
        let now_tick = now.0 / TICK_MS;
        if self.is_idle_at(now) {
            return None;
        }
        if now_tick < self.tick {
            if self.tick - now_tick > SLACK_TICKS {
                self.rebuild(now_tick, &due_at);
            }
            return None;
        }
        self.idle = false;
        while *budget > 0 {
            let Some((level, index, start)) = self.next_slot() else {
                break;
            };
            if start > now_tick {
                break;
            }
            self.tick = self.tick.max(start);
            let id = self.heads[level][index];
            self.cancel(id);
            *budget -= 1;
            let at = due_at(id);
            if at <= now {
                return Some(id);
            }
            if at != Millis::NEVER {
                self.link(id, at);
            }
        }
        if *budget > 0 {
            self.tick = now_tick;
            self.idle = true;
        }
        None
    }

    /// The first slot that is not empty, and the tick at which it begins. A slot of a higher level can begin before
    /// one of a lower level: the one that is just being distributed over the lower levels.
    fn next_slot(&self) -> Option<(usize, usize, u64)> {
        let occupied = (0..LEVELS).filter(|level| self.occupied[*level] != 0);
        let slots = occupied.map(|level| {
            let shift = SLOT_BITS * level as u32;
            let position = (self.tick >> shift) as u32 & (SLOTS as u32 - 1);
            let ahead = self.occupied[level].rotate_right(position).trailing_zeros();
            let start = ((self.tick >> shift) + u64::from(ahead)) << shift;
            (level, (position + ahead) as usize % SLOTS, start)
        });
        slots.min_by_key(|(_, _, start)| *start)
    }

    fn link(&mut self, id: Id, at: Millis) {
        // Rounded up, so that an entry that is checked is due unless it was postponed. A time in the past is due at once; a time
        // beyond the range of the last level goes to its farthest slot and is rescheduled from there.
        let tick = at.0.div_ceil(TICK_MS).clamp(self.tick, self.tick + REACH_TICKS);
        let level = match tick ^ self.tick {
            0 => {
                self.idle = false;
                0
            }
            differ => ((u64::BITS - 1 - differ.leading_zeros()) / SLOT_BITS).min(LEVELS as u32 - 1),
        };
        let index = (tick >> (SLOT_BITS * level)) as usize & (SLOTS - 1);
        let level = level as usize;
        let next = std::mem::replace(&mut self.heads[level][index], id);
        if next != NONE {
            self.links[next as usize].prev = id;
        }
        self.links[id as usize] = Link { prev: NONE, next, slot: (level * SLOTS + index) as u32 };
        self.occupied[level] |= 1 << index;
        self.len += 1;
    }

    fn rebuild(&mut self, tick: u64, due_at: &impl Fn(Id) -> Millis) {
        let waiting: Vec<Id> =
            (0..self.links.len() as Id).filter(|id| self.links[*id as usize].slot != NONE).collect();
        let links = std::mem::take(&mut self.links);
        *self = Wheel { tick, links, ..Wheel::new() };
        for link in &mut self.links {
            link.slot = NONE;
        }
        for id in waiting {
            let at = due_at(id);
            if at != Millis::NEVER {
                self.link(id, at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn drain(wheel: &mut Wheel, due: &BTreeMap<Id, u64>, now: u64) -> Vec<Id> {
        let mut ids = Vec::new();
        let mut budget = usize::MAX;
        while let Some(id) = wheel.pop_due(Millis(now), &mut budget, |id| Millis(due[&id])) {
            ids.push(id);
        }
        ids.sort_unstable();
        ids
    }

    fn wheel_of(due: &BTreeMap<Id, u64>) -> Wheel {
        let mut wheel = Wheel::new();
        for (id, at) in due {
            wheel.schedule(*id, Millis(*at));
        }
        wheel
    }

    #[test]
    fn near_and_distant_times_are_due_in_order() {
        let far = [1, 40, 100, 1000, 65_536, 1 << 20, 1 << 30, 1 << 41, 1 << 50];
        let due: BTreeMap<Id, u64> = far.iter().enumerate().map(|(i, at)| (i as Id, *at)).collect();
        let mut wheel = wheel_of(&due);
        for (id, at) in &due {
            assert!(drain(&mut wheel, &due, at - 1).is_empty(), "{at} is not due yet");
            assert_eq!(drain(&mut wheel, &due, at + TICK_MS), [*id], "{at}");
        }
        assert!(wheel.is_empty());
    }

    #[test]
    fn a_postponed_entry_is_rescheduled_at_its_earlier_time() {
        let mut due = BTreeMap::from([(0, 100)]);
        let mut wheel = wheel_of(&due);
        due.insert(0, 5000);
        assert!(drain(&mut wheel, &due, 200).is_empty());
        assert!(drain(&mut wheel, &due, 4999).is_empty());
        assert_eq!(drain(&mut wheel, &due, 5016), [0]);
    }

    #[test]
    fn a_small_budget_returns_everything_in_the_end() {
        let due: BTreeMap<Id, u64> = (0..1000).map(|id| (id, u64::from(id) * 37 % 70_000)).collect();
        let mut wheel = wheel_of(&due);
        let mut seen = 0;
        for _ in 0..100_000 {
            let mut budget = 1;
            seen += usize::from(wheel.pop_due(Millis(100_000), &mut budget, |id| Millis(due[&id])).is_some());
        }
        assert_eq!(seen, 1000);
    }

    #[test]
    fn a_clock_jump_forward_and_back_delays_nothing_for_long() {
        let mut due: BTreeMap<Id, u64> = (0..100).map(|id| (id, 1_000_000 + u64::from(id))).collect();
        let mut wheel = wheel_of(&due);
        due.insert(1000, 1 << 39);
        wheel.schedule(1000, Millis(1 << 39));
        assert_eq!(drain(&mut wheel, &due, 1 << 38).len(), 100);
        // Back in time: new entries must not wait for the distant future.
        for id in 0..100 {
            due.insert(id, 2_000);
            wheel.schedule(id, Millis(2_000));
        }
        assert!(drain(&mut wheel, &due, 1_000).is_empty());
        assert_eq!(drain(&mut wheel, &due, 2_016).len(), 100);
        assert_eq!(wheel.len(), 1);
    }

    #[test]
    fn random_histories_agree_with_a_sorted_map() {
        let mut seed = 7u64;
        let mut random = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let (mut wheel, mut due, mut now) = (Wheel::new(), BTreeMap::new(), 0);
        for _ in 0..20_000 {
            let id = random(300) as Id;
            match random(10) {
                0..5 => {
                    let width = 1 << random(24);
                    let at = now + random(width);
                    due.insert(id, at);
                    wheel.schedule(id, Millis(at));
                }
                5 => {
                    due.remove(&id);
                    wheel.cancel(id);
                }
                _ => {
                    let width = 1 << random(16);
                    now += random(width);
                    for id in drain(&mut wheel, &due, now) {
                        assert!(due.remove(&id).unwrap() <= now);
                    }
                    // Nothing may be more than one tick late.
                    assert!(due.values().all(|at| *at + TICK_MS > now), "late at {now}");
                }
            }
            assert_eq!(wheel.len(), due.len());
        }
    }
}
