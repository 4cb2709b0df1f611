//! ZSCAN key cursor [MATCH pattern] [COUNT count]

use crate::args::Args;
use crate::ctx::Ctx;
use crate::errors::CommandResult;
use crate::number::format_float;
use crate::reply::Reply;
use crate::scan::{Scan, Walk};

pub(super) fn zscan(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let mut cursor = args.cursor(2);
    let scan = Scan::from_cursor(&mut cursor)?;
    let Some(zset) = ctx.keys.zset(args.at(1), ctx.now)? else {
        return Ok(Scan::reply(0, Vec::new()));
    };
    let scan = scan.options(&mut cursor, Walk::Members)?;
    let mut found = Vec::new();
    let next = zset.scan(scan.cursor, scan.count, |member, score| {
        if scan.matches(member) {
            // Scores are bulk strings here, in RESP3 too.
            found.extend([Reply::bulk(member), Reply::text(format_float(score))]);
        }
    });
    Ok(Scan::reply(next, found))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::reply::Reply;
    use crate::testing::Desk;

    #[test]
    fn members_come_with_scores() {
        Desk::new().expect(&[
            ("ZSCAN z 0 WHAT", "*2 $1 0 *0"),
            ("ZADD z 1 a 2.5 b", ":2"),
            ("ZSCAN z 0", "*2 $1 0 *4 $1 a $1 1 $1 b $3 2.5"),
            ("ZSCAN z 0 MATCH b* COUNT 1", "*2 $1 0 *2 $1 b $3 2.5"),
            ("ZSCAN z x", "-ERR invalid cursor"),
            ("ZSCAN z 0 COUNT 0", "-ERR syntax error"),
            ("ZSCAN z 0 COUNT x", "-ERR value is not an integer or out of range"),
            ("ZSCAN z 0 WHAT", "-ERR syntax error"),
            ("SET s x", "+OK"),
            ("ZSCAN s 0 WHAT", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }

    #[test]
    fn a_large_set_is_walked_in_steps() {
        let mut desk = Desk::new();
        for i in 0..300 {
            desk.run(&format!("ZADD z {i} m{i}"));
        }
        let (mut cursor, mut seen) = ("0".to_owned(), BTreeSet::new());
        loop {
            let Reply::Array(parts) = desk.run(&format!("ZSCAN z {cursor}")) else { panic!() };
            let (Reply::Bulk(next), Reply::Array(found)) = (&parts[0], &parts[1]) else { panic!() };
            seen.extend(found.chunks(2).map(|pair| format!("{:?}", pair[0])));
            cursor = String::from_utf8(next.to_vec()).unwrap();
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(seen.len(), 300);
    }
}
