//! Makes a counterexample smaller: proposes to leave out ever shorter runs of its items, and keeps what still is one. Pure.

/// A list that is made shorter as long as it shows what it is to show.
pub(super) struct Shrinking<T> {
    items: Vec<T>,
    /// How many items the next proposal leaves out, and from which on.
    len: usize,
    at: usize,
    /// Whether this pass over the list has made it shorter.
    shorter: bool,
}

impl<T: Clone> Shrinking<T> {
    pub(super) fn new(items: Vec<T>) -> Self {
        let len = (items.len() / 2).max(1);
        Shrinking { items, len, at: 0, shorter: false }
    }

    /// The list without some of its items. `None` if none of them can be left out alone.
    pub(super) fn proposal(&mut self) -> Option<Vec<T>> {
        loop {
            if self.at >= self.items.len() {
                if self.len == 1 && !self.shorter {
                    return None;
                }
                self.len = (self.len / 2).max(1);
                (self.at, self.shorter) = (0, false);
            }
            let end = (self.at + self.len).min(self.items.len());
            let left = [&self.items[..self.at], &self.items[end..]].concat();
            if !left.is_empty() {
                return Some(left);
            }
            self.at = end;
        }
    }

    /// What became of the last proposal: whether it still shows it.
    pub(super) fn shows(&mut self, still: bool) {
        let end = (self.at + self.len).min(self.items.len());
        match still {
            true => {
                self.items.drain(self.at..end);
                self.shorter = true;
            }
            false => self.at = end,
        }
    }

    pub(super) fn items(self) -> Vec<T> {
        self.items
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shrunk(items: Vec<u32>, shows: impl Fn(&[u32]) -> bool) -> (Vec<u32>, u32) {
        let (mut shrinking, mut proposals) = (Shrinking::new(items), 0);
        while let Some(proposal) = shrinking.proposal() {
            proposals += 1;
            let still = shows(&proposal);
            shrinking.shows(still);
        }
        (shrinking.items(), proposals)
    }

    #[test]
    fn what_matters_is_left_and_nothing_else() {
        for wanted in [vec![0], vec![99], vec![50], vec![0, 99], vec![3, 4, 5], vec![1, 40, 41, 98]] {
            let (left, proposals) =
                shrunk((0..100).collect(), |items| wanted.iter().all(|item| items.contains(item)));
            assert_eq!(left, wanted);
            assert!(proposals < 120, "{proposals} for {wanted:?}");
        }
    }

    #[test]
    fn what_depends_on_all_of_it_stays_whole() {
        let whole: Vec<u32> = (0..7).collect();
        assert_eq!(shrunk(whole.clone(), |items| items.len() == 7).0, whole);
        assert_eq!(shrunk(vec![5], |_| true).0, [5]);
        assert!(shrunk(Vec::new(), |_| true).0.is_empty());
    }

    /// An item may matter only as long as another is there.
    #[test]
    fn a_second_pass_finds_what_the_first_has_made_possible() {
        let shows = |items: &[u32]| items.contains(&9) && (!items.contains(&1) || items.contains(&0));
        assert_eq!(shrunk((0..10).collect(), shows).0, [9]);
    }
}
