//! `LCS key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]`
//!
//! The length of the longest common subsequence of every two prefixes is computed row by row. The backtracking needs one bit
//! per cell of a row: whether dropping the end of the first string leaves more than dropping that of the second.

use std::borrow::Cow;

use keystead_model::Bytes;
use keystead_model::keyspace::Miss;
use keystead_model::value::Str;

use crate::bounds::STRING_BYTES_MAX;
use crate::errors::{self, Fail};
use crate::number;
use crate::{Args, CommandResult, Ctx, Reply};

const NOT_STRINGS: Fail = Fail::Text(Cow::Borrowed("ERR The specified keys must contain string values"));
const BOTH: Fail =
    Fail::Text(Cow::Borrowed("ERR If you want both the length and indexes, please just use IDX."));
const TOO_LARGE: Fail =
    Fail::Text(Cow::Borrowed("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len"));

/// What Redis allocates for each pair of prefixes. Ours is less, but what Redis rejects is rejected here too: it is work as well.
const REDIS_CELL_BYTES: usize = 4;

pub(super) fn lcs(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let (a, b) = (string(ctx, args.at(1))?, string(ctx, args.at(2))?);
    let options = Options::parse(args)?;
    let cells = (a.len() + 1).saturating_mul(b.len() + 1);
    if cells.saturating_mul(REDIS_CELL_BYTES) > STRING_BYTES_MAX {
        return Err(TOO_LARGE);
    }
    if options.len {
        return Ok(Reply::count(measure(&a, &b, |_| {})));
    }
    let mut up = Bits(vec![0; (a.len() * b.len()).div_ceil(64)]);
    let len = measure(&a, &b, |index| up.set(index));
    let backtrack = Backtrack { a: &a, b: &b, up: &up };
    if !options.idx {
        return Ok(Reply::shared(Bytes::from(backtrack.common(len))));
    }
    let mut matches = Vec::new();
    backtrack.runs(|run| {
        if run.len() >= options.min_len {
            matches.push(run.reply(options.with_len));
        }
    });
    Ok(Reply::Map(vec![
        (Reply::bulk(b"matches"), Reply::Array(matches)),
        (Reply::bulk(b"len"), Reply::count(len)),
    ]))
}

fn string(ctx: &mut Ctx<'_>, key: &[u8]) -> Result<Bytes, Fail> {
    match ctx.keys.str(key, ctx.now) {
        Ok(value) => Ok(value.map(Str::to_bytes).unwrap_or_default()),
        Err(Miss::WrongType(_)) => Err(NOT_STRINGS),
        Err(miss) => Err(miss.into()),
    }
}

#[derive(Default)]
struct Options {
    len: bool,
    idx: bool,
    min_len: usize,
    with_len: bool,
}

impl Options {
    fn parse(args: Args<'_>) -> Result<Self, Fail> {
        let mut cursor = args.cursor(3);
        let mut options = Options::default();
        while !cursor.is_done() {
            if cursor.accept("IDX") {
                options.idx = true;
            } else if cursor.accept("LEN") {
                options.len = true;
            } else if cursor.accept("WITHMATCHLEN") {
                options.with_len = true;
            } else if cursor.accept_with("MINMATCHLEN", 1) {
                options.min_len = number::size(cursor.int()?).unwrap_or(0);
            } else {
                return Err(errors::SYNTAX);
            }
        }
        if options.idx && options.len { Err(BOTH) } else { Ok(options) }
    }
}

/// The length of the longest common subsequence. `up` is called with the cells (row times width plus column) of differing
/// ends at which the backtracking goes up.
fn measure(a: &[u8], b: &[u8], mut up: impl FnMut(usize)) -> usize {
    let mut row = vec![0u32; b.len() + 1];
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = 0;
        for (j, y) in b.iter().enumerate() {
            let (above, left) = (row[j + 1], row[j]);
            row[j + 1] = if x == y {
                diagonal + 1
            } else {
                if above > left {
                    up(i * b.len() + j);
                }
                above.max(left)
            };
            diagonal = above;
        }
    }
    row.last().map_or(0, |len| *len as usize)
}

struct Bits(Vec<u64>);

impl Bits {
    fn set(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }

    fn is_set(&self, index: usize) -> bool {
        self.0[index / 64] >> (index % 64) & 1 == 1
    }
}

/// Backtracks from the ends of both strings.
struct Backtrack<'a> {
    a: &'a [u8],
    b: &'a [u8],
    up: &'a Bits,
}

/// A run of bytes that both strings share, by its start in each.
struct Run {
    a: usize,
    b: usize,
    len: usize,
}

impl Run {
    fn len(&self) -> usize {
        self.len
    }

    fn reply(&self, with_len: bool) -> Reply {
        let ends = |start: usize| Reply::Array(vec![Reply::count(start), Reply::count(start + self.len - 1)]);
        let mut parts = vec![ends(self.a), ends(self.b)];
        if with_len {
            parts.push(Reply::count(self.len));
        }
        Reply::Array(parts)
    }
}

impl Backtrack<'_> {
    /// Visits the runs, the last one first.
    fn runs(&self, mut emit: impl FnMut(Run)) {
        let (mut i, mut j) = (self.a.len(), self.b.len());
        while i > 0 && j > 0 {
            let mut len = 0;
            while i > 0 && j > 0 && self.a[i - 1] == self.b[j - 1] {
                (i, j, len) = (i - 1, j - 1, len + 1);
            }
            if len > 0 {
                emit(Run { a: i, b: j, len });
            } else if self.up.is_set((i - 1) * self.b.len() + j - 1) {
                i -= 1;
            } else {
                j -= 1;
            }
        }
    }

    /// The subsequence itself.
    fn common(&self, len: usize) -> Vec<u8> {
        let mut common = Vec::with_capacity(len);
        self.runs(|run| common.extend(self.a[run.a..run.a + run.len].iter().rev()));
        common.reverse();
        common
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn the_example_of_the_manual() {
        Desk::new().expect(&[
            ("MSET k1 ohmytext k2 mynewtext", "+OK"),
            ("LCS k1 k2", "$6 mytext"),
            ("LCS k1 k2 LEN", ":6"),
            ("LCS k1 k2 IDX", "*4 $7 matches *2 *2 *2 :4 :7 *2 :5 :8 *2 *2 :2 :3 *2 :0 :1 $3 len :6"),
            ("LCS k1 k2 IDX MINMATCHLEN 4", "*4 $7 matches *1 *2 *2 :4 :7 *2 :5 :8 $3 len :6"),
            (
                "LCS k1 k2 IDX MINMATCHLEN 4 WITHMATCHLEN",
                "*4 $7 matches *1 *3 *2 :4 :7 *2 :5 :8 :4 $3 len :6",
            ),
            ("LCS k1 none", "$0"),
            ("LCS none k1 IDX", "*4 $7 matches *0 $3 len :0"),
        ]);
    }

    #[test]
    fn errors_come_in_redis_order() {
        let mut desk = Desk::new();
        desk.keys.set_mut(b"s", desk.now).unwrap().insert(&"m".as_bytes().into());
        desk.expect(&[
            ("LCS s k FOO", "-ERR The specified keys must contain string values"),
            ("LCS k k FOO", "-ERR syntax error"),
            ("LCS k k MINMATCHLEN", "-ERR syntax error"),
            ("LCS k k MINMATCHLEN x", "-ERR value is not an integer or out of range"),
            ("LCS k k IDX LEN", "-ERR If you want both the length and indexes, please just use IDX."),
        ]);
    }
}
