//! `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`, and in Upstash `WITHTYPE`

use super::type_of;
use crate::bounds::SCAN_STRIDES_MAX;
use crate::scan::{Scan, Walk};
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn scan(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let dialect = ctx.dialect;
    let walk = if ctx.is_upstash() { Walk::KeysOfUpstash } else { Walk::Keys };
    let scan = Scan::parse(&mut args.cursor(1), walk)?;
    // Redis may return fewer keys than requested, where many are deleted; Upstash continues until it has them.
    let strides = if walk == Walk::KeysOfUpstash { SCAN_STRIDES_MAX } else { 1 };
    let (mut found, mut cursor, mut left) = (Vec::new(), scan.cursor, scan.count);
    for _ in 0..strides {
        cursor = ctx.keys.scan(cursor, left, ctx.now, |key, kind| {
            left = left.saturating_sub(1);
            let name = type_of::name(kind, dialect);
            let right_kind = scan.kind.is_none_or(|wanted| wanted.eq_ignore_ascii_case(name.as_bytes()));
            if right_kind && scan.matches(key) {
                found.push(Reply::shared(key.clone()));
                found.extend(scan.with_types.then(|| Reply::bulk(name.as_bytes())));
            }
        })?;
        if cursor == 0 || left == 0 {
            break;
        }
    }
    Ok(Scan::reply(cursor, found))
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;

    #[test]
    fn a_scan_visits_everything_in_steps() {
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
    fn upstash_scans_hundreds_at_once_with_types() {
        let mut desk = Desk::upstash();
        desk.expect(&[
            ("SADD a m", ":1"),
            ("HSET b f v", ":1"),
            ("SCAN 0 WITHTYPE", "*2 $1 0 *4 $1 a $3 set $1 b $4 hash"),
            ("SCAN 0 withtype TYPE hash", "*2 $1 0 *2 $1 b $4 hash"),
            ("SCAN 0 COUNT 1", "*2 $1 1 *1 $1 a"),
            ("SCAN 1 COUNT 1", "*2 $1 0 *1 $1 b"),
            ("HSCAN b 0 WITHTYPE", "-ERR syntax error"),
        ]);
        (0..500).for_each(|n| drop(desk.run(&format!("SET k:{n} v"))));
        assert!(desk.resp("SCAN 0").starts_with("*2 $1 0 *502 "));
        // Keys that have expired are skipped.
        (0..490).for_each(|n| drop(desk.run(&format!("DEL k:{n}"))));
        assert!(desk.resp("SCAN 2 COUNT 1").contains(" *1 "));
        desk.dialect = crate::ctx::Dialect::Redis;
        desk.expect(&[("SCAN 0 WITHTYPE", "-ERR syntax error")]);
        assert!(!desk.resp("SCAN 0").starts_with("*2 $1 0 "));
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
