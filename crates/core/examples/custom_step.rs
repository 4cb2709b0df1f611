//! A custom step on a store: a high score that only a higher one replaces, and that expires after a week.
//!
//! ```text
//! cargo run -p keystead-core --example custom_step
//! ```
//!
//! A step is a pure function of the state under a key and the time. The store runs it atomically, so two players who submit a
//! score at the same moment cannot overwrite each other. The same step runs on any store: on [`MemoryStore`] here, on the
//! engine, or on a store of your own.

#![allow(clippy::print_stdout, reason = "an example reports on the terminal")]

use keystead_core::{Change, Key, MemoryStore, Millis, Result, Step, StoreExt, Ttl};
use serde::{Deserialize, Serialize};

const WEEK_MS: u64 = 7 * 24 * 60 * 60 * 1000;

/// What the store keeps under a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Best {
    player: String,
    score: u64,
}

/// Submits a score.
#[derive(Clone)]
struct Submit {
    player: String,
    score: u64,
}

/// An expected outcome is a value, not an error.
#[derive(Debug, PartialEq)]
enum Outcome {
    Record { previous: Option<u64> },
    TooLow { best: Best },
}

impl Step for Submit {
    type State = Best;
    type Reply = Outcome;

    fn run(&self, best: Option<&Best>, _now: Millis) -> Change<Best, Outcome> {
        match best {
            Some(best) if best.score >= self.score => Change::Keep(Outcome::TooLow { best: best.clone() }),
            _ => {
                let record = Best { player: self.player.clone(), score: self.score };
                let previous = best.map(|best| best.score);
                Change::Put(record, Ttl::Ms(WEEK_MS), Outcome::Record { previous })
            }
        }
    }
}

fn main() -> Result<()> {
    let store = MemoryStore::new();
    let key = Key::new("highscore:tetris")?;
    for (player, score) in [("ada", 300), ("bob", 200), ("eve", 500)] {
        // `apply_sync` needs no runtime. On a store that waits for a disk or a server, write `store.apply(..).await`.
        let outcome = store.apply_sync(&key, &Submit { player: player.to_string(), score })?;
        println!("{player} submits {score}: {outcome:?}");
    }
    Ok(())
}
