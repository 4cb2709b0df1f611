//! `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`

use super::type_of;
use crate::scan::Scan;
use crate::{Answer, Args, Ctx, Reply};

pub(super) fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Answer {
    let scan = Scan::parse(&mut args.cursor(1), true, false)?;
    let (mut found, dialect) = (Vec::new(), ctx.dialect);
    let cursor = ctx.keys.scan(scan.cursor, scan.count, ctx.now, |key, kind| {
        let name = type_of::name(kind, dialect).as_bytes();
        let right_kind = scan.kind.is_none_or(|asked| asked.eq_ignore_ascii_case(name));
        if right_kind && scan.wants(key) {
            found.push(Reply::Bulk(key.clone()));
        }
    })?;
    Ok(Scan::reply(cursor, found))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn a_scan_comes_by_everything_in_steps() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("SCAN 0", "*2 $1 0 *0"),
            ("SADD a m", ":1"),
            ("HSET b f v", ":1"),
            ("SADD c m", ":1"),
            ("SCAN 0", "*2 $1 0 *3 $1 a $1 b $1 c"),
            ("SCAN 0 COUNT 2", "*2 $1 2 *2 $1 a $1 b"),
            ("SCAN 2 COUNT 2", "*2 $1 0 *1 $1 c"),
            ("SCAN 0 TYPE HASH", "*2 $1 0 *1 $1 b"),
            ("SCAN 0 TYPE nothing", "*2 $1 0 *0"),
            ("SCAN 0 MATCH [bc] COUNT 1000000000000000000", "*2 $1 0 *2 $1 b $1 c"),
            ("SCAN 18446744073709551615", "*2 $1 0 *0"),
        ]);
    }

    #[test]
    fn options_are_checked() {
        Desk::new().expect(&[
            ("SCAN x", "-ERR invalid cursor"),
            ("SCAN -", "-ERR invalid cursor"),
            ("SCAN 18446744073709551616", "-ERR invalid cursor"),
            ("SCAN -0", "*2 $1 0 *0"),
            ("SCAN -1", "*2 $1 0 *0"),
            ("SCAN +5", "*2 $1 0 *0"),
            ("SCAN 0 COUNT 0", "-ERR syntax error"),
            ("SCAN 0 COUNT x", "-ERR value is not an integer or out of range"),
            ("SCAN 0 COUNT", "-ERR syntax error"),
            ("SCAN 0 MATCH", "-ERR syntax error"),
            ("SCAN 0 NOVALUES", "-ERR NOVALUES option can only be used in HSCAN"),
        ]);
    }
}
