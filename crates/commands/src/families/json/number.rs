//! `JSON.NUMINCRBY key path number`, `JSON.NUMMULTBY key path number`
//!
//! Two integers result in an integer, or in an error if it does not fit; anything else is computed in doubles.

use serde_json::{Number, Value};

use super::document;
use super::edit::{self, Edit};
use super::path::Path;
use crate::errors::Fail;
use crate::{Args, CommandResult, Ctx, Reply};

const OVERFLOW: Fail = Fail::fixed("ERR numeric overflow");
const NOT_FINITE: Fail = Fail::fixed("ERR result is not a number");
const NO_NUMBER: Fail = Fail::fixed("ERR bad input number");

struct Operation {
    integers: fn(i64, i64) -> Option<i64>,
    doubles: fn(f64, f64) -> f64,
}

pub(super) fn json_numincrby(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    reckon(ctx, args, &Operation { integers: i64::checked_add, doubles: |a, b| a + b })
}

pub(super) fn json_nummultby(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    reckon(ctx, args, &Operation { integers: i64::checked_mul, doubles: |a, b| a * b })
}

fn reckon(ctx: &mut Ctx<'_>, args: Args<'_>, operation: &Operation) -> CommandResult {
    let path = Path::read(args.at(2))?;
    let operand = match document::parse(args.at(3)) {
        Ok(Value::Number(operand)) => operand,
        Ok(_) => return Err(NO_NUMBER),
        Err(flaw) => return Err(flaw.into()),
    };
    let mut edit = Edit::begin(ctx, args, path)?;
    let results = edit.each(0, |value| {
        let Value::Number(number) = value else { return Ok(None) };
        *number = operation.apply(number, &operand)?;
        Ok(Some(number.clone()))
    })?;
    let reply = if edit.path.is_legacy() {
        let last = results.into_iter().flatten().last();
        let last = last.ok_or_else(|| edit::no_path_or(&edit.path, "does not contains a number"))?;
        Reply::text(last.as_str())
    } else {
        let numbers = results.iter().map(|result| result.as_ref().map_or("null", |number| number.as_str()));
        Reply::text(format!("[{}]", numbers.collect::<Vec<_>>().join(",")))
    };
    edit.finish(ctx, args)?;
    Ok(reply)
}

impl Operation {
    fn apply(&self, a: &Number, b: &Number) -> Result<Number, Fail> {
        if let (Some(a), Some(b)) = (a.as_i64(), b.as_i64()) {
            return (self.integers)(a, b).map(Number::from).ok_or(OVERFLOW);
        }
        let (a, b) = (a.as_f64().ok_or(NOT_FINITE)?, b.as_f64().ok_or(NOT_FINITE)?);
        Number::from_f64((self.doubles)(a, b)).ok_or(NOT_FINITE)
    }
}

#[cfg(test)]
mod tests {
    use crate::families::json::testing::{expect, upstash};
    use crate::testing::Desk;

    #[test]
    fn numbers_are_added_and_multiplied() {
        expect(&[
            ("JSON.NUMINCRBY d $ 1", "-ERR could not perform this operation on a key that doesn't exist"),
            (r#"JSON.SET d $ {"a":"b","b":[{"a":2},{"a":5.0},{"a":"c"}],"i":9007199254740993}"#, "+OK"),
            ("JSON.NUMINCRBY d $.a 2", "$ [null]"),
            ("JSON.NUMINCRBY d $..a 2", "$ [null,4,7.0,null]"),
            ("JSON.NUMMULTBY d $..a 2", "$ [null,8,14.0,null]"),
            ("JSON.NUMINCRBY d $.zz 1", "$ []"),
            ("JSON.NUMINCRBY d i 1", "$ 9007199254740994"),
            ("JSON.NUMMULTBY d i -1", "$ -9007199254740994"),
            ("JSON.NUMINCRBY d .b[0].a 0.5", "$ 8.5"),
            ("JSON.NUMINCRBY d .b[0].a 0.5", "$ 9.0"),
            ("JSON.NUMINCRBY d ..a 1", "$ 15.0"),
            ("JSON.NUMINCRBY d a 1", "-ERR Path '$.a' does not exist or does not contains a number"),
            ("JSON.NUMINCRBY d zz 1", "-ERR Path '$.zz' does not exist or does not contains a number"),
            (r#"JSON.NUMINCRBY d i "1""#, "-ERR bad input number"),
            ("JSON.NUMINCRBY d i NaN", "-ERR expected value at line 1 column 1"),
            ("JSON.NUMINCRBY d i 1e400", "-ERR result is not a number"),
        ]);
    }

    #[test]
    fn an_overflow_changes_nothing() {
        let mut desk = Desk::new();
        desk.run(r#"JSON.SET d $ [1,9223372036854775807,1e308,18446744073709551616]"#);
        let (revision, text) = (desk.keys.revision(), desk.resp("JSON.GET d"));
        desk.expect(&[
            ("JSON.NUMINCRBY d $[0,1] 1", "-ERR numeric overflow"),
            ("JSON.NUMMULTBY d $[0,1] -2", "-ERR numeric overflow"),
            ("JSON.NUMMULTBY d $[0,2] 1e10", "-ERR result is not a number"),
            ("JSON.NUMINCRBY d $[0] 0", "$3 [1]"),
            ("JSON.GET d", &text),
        ]);
        assert_eq!(desk.keys.revision(), revision);
        desk.expect(&[("JSON.NUMINCRBY d $[3] 1", "$24 [1.8446744073709552e+19]")]);
    }

    #[test]
    fn upstash_returns_inner_matches_first() {
        upstash(&[
            (r#"JSON.SET d $ {"int":1,"str":"test","object":{"int":2}}"#, "+OK"),
            ("JSON.NUMINCRBY d $..int 1", "$ [3,2]"),
            ("JSON.NUMMULTBY d $..int 3", "$ [9,6]"),
        ]);
    }
}
