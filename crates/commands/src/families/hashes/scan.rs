//! `HSCAN key cursor [MATCH pattern] [COUNT count] [NOVALUES]`

use crate::scan::{Scan, Walk};
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn hscan(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    let mut cursor = args.cursor(2);
    let scan = Scan::from_cursor(&mut cursor)?;
    let Some(hash) = ctx.keys.hash(args.at(1), ctx.now)? else {
        return Ok(Scan::reply(0, Vec::new()));
    };
    let scan = scan.options(&mut cursor, Walk::Fields)?;
    let mut found = Vec::new();
    let next = hash.scan(scan.cursor, scan.count, |field, value| {
        if scan.matches(field) {
            found.push(Reply::bulk(field));
            if !scan.no_values {
                found.push(Reply::bulk(value));
            }
        }
    });
    Ok(Scan::reply(next, found))
}

#[cfg(test)]
mod tests {
    use crate::Reply;
    use crate::testing::Desk;

    #[test]
    fn a_small_hash_is_scanned_at_once() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("HSCAN h x", "-ERR invalid cursor"),
            ("HSCAN h 0 foo", "*2 $1 0 *0"),
            ("HSET h aa 1 ab 2 b 3", ":3"),
            ("HSCAN h 0", "*2 $1 0 *6 $2 aa $1 1 $2 ab $1 2 $1 b $1 3"),
            ("HSCAN h 0 MATCH a* COUNT 1", "*2 $1 0 *4 $2 aa $1 1 $2 ab $1 2"),
            ("HSCAN h 0 novalues match a*", "*2 $1 0 *2 $2 aa $2 ab"),
            ("HSCAN h 0 foo", "-ERR syntax error"),
            ("HSCAN h 0 TYPE hash", "-ERR syntax error"),
            ("SADD s m", ":1"),
            ("HSCAN s 0 foo", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    }

    #[test]
    fn a_large_hash_is_scanned_in_steps() {
        let mut desk = Desk::new();
        for n in 0..300 {
            desk.run(&format!("HSET h f{n} v"));
        }
        let (mut cursor, mut seen, mut steps) = ("0".to_owned(), Vec::new(), 0);
        loop {
            let Reply::Array(reply) = desk.run(&format!("HSCAN h {cursor} COUNT 50 NOVALUES")) else {
                panic!()
            };
            let [Reply::Bulk(next), Reply::Array(fields)] = reply.as_slice() else { panic!() };
            seen.extend(fields.iter().map(|field| format!("{field:?}")));
            cursor = String::from_utf8(next.to_vec()).unwrap();
            steps += 1;
            if cursor == "0" {
                break;
            }
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 300);
        assert!(steps > 1);
    }
}
