//! `SSCAN key cursor [MATCH pattern] [COUNT count]`

use crate::scan::{Scan, Walk};
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn sscan(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let mut cursor = args.cursor(2);
    let scan = Scan::from_cursor(&mut cursor)?;
    let Some(set) = ctx.keys.set(args.at(1), ctx.now)? else {
        return Ok(Scan::reply(0, Vec::new()));
    };
    let scan = scan.options(&mut cursor, Walk::Members)?;
    let mut found = Vec::new();
    let next = set.scan(scan.cursor, scan.count, |member| {
        if scan.matches(member) {
            found.push(Reply::bulk(member));
        }
    });
    Ok(Scan::reply(next, found))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn members_are_scanned() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("SSCAN s x foo", "-ERR invalid cursor"),
            ("SSCAN s 0 foo", "*2 $1 0 *0"),
            ("SADD s aa ab b", ":3"),
            ("SSCAN s 0", "*2 $1 0 *3 $2 aa $2 ab $1 b"),
            ("SSCAN s 0 MATCH a* COUNT 1", "*2 $1 0 *2 $2 aa $2 ab"),
            ("SSCAN s 0 NOVALUES", "-ERR NOVALUES option can only be used in HSCAN"),
            ("SSCAN s 0 TYPE set", "-ERR syntax error"),
            ("HSET h f v", ":1"),
            ("SSCAN h 0 foo", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }
}
