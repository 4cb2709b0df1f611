//! `COMMAND`, `COMMAND INFO [command-name [command-name ...]]`

use super::about::{self, Entry};
use crate::args::Args;
use crate::conn::Conn;
use crate::errors::CommandResult;
use crate::keys_of::Keys;
use crate::reply::Reply;
use crate::spec::Spec;

pub(super) fn info(conn: &mut Conn<'_>, args: Args<'_>) -> CommandResult {
    if args.len() == 1 && conn.is_upstash() {
        return Ok(Reply::Array(Vec::new()));
    }
    if args.len() <= 2 {
        return Ok(Reply::Array(about::entries().map(entry).collect()));
    }
    let found = args.from(2).map(|name| about::find(name).map_or(Reply::Nil, entry));
    Ok(Reply::Array(found.collect()))
}

fn entry(about: Entry) -> Reply {
    let subcommands = about.within().map(|row| fields(row, Vec::new()));
    fields(about, subcommands.collect())
}

fn fields(about: Entry, subcommands: Vec<Reply>) -> Reply {
    let statuses =
        |names: Vec<String>| Reply::Set(names.into_iter().map(|name| Reply::Status(name.into())).collect());
    let flags = about.flags().into_iter().map(str::to_owned).collect();
    let mut fields = vec![
        Reply::bulk(about.spec.full_name.as_bytes()),
        Reply::Int(i64::from(about.spec.arity)),
        statuses(flags),
    ];
    fields.extend(about::range(about.spec.keys).map(Reply::Int));
    fields.push(statuses(about.categories()));
    fields.push(Reply::Set(Vec::new()));
    fields.push(Reply::Set(key_specs(about.spec)));
    fields.push(Reply::Array(subcommands));
    Reply::Array(fields)
}

/// How a command accesses its keys.
pub(super) fn key_flags(spec: &Spec) -> Reply {
    let flags: &[&str] = if spec.writes() { &["RW", "access", "update"] } else { &["RO", "access"] };
    Reply::Set(flags.iter().map(|flag| Reply::Status((*flag).into())).collect())
}

/// Where keys begin, and how to find the others from there.
fn key_specs(spec: &Spec) -> Vec<Reply> {
    let one = |begin: Reply, find: Reply| {
        let fields = [("flags", key_flags(spec)), ("begin_search", begin), ("find_keys", find)];
        map(fields)
    };
    let [first, last, step] = about::range(spec.keys);
    let last = if last > 0 { last - first } else { last };
    match spec.keys {
        Keys::None => Vec::new(),
        Keys::At(_) | Keys::Two(..) | Keys::From(_) | Keys::Every(..) | Keys::Until(..) => {
            vec![one(index(first), span(last, step, 0))]
        }
        Keys::Counted(at) => vec![one(index(int(at)), counted(1))],
        Keys::CountedPairs => vec![one(index(1), counted(2))],
        Keys::StoreCounted => vec![one(index(1), span(0, 1, 0)), one(index(2), counted(1))],
        Keys::Streams => {
            let begin = [("keyword", Reply::bulk(b"STREAMS")), ("startfrom", Reply::Int(1))];
            vec![one(typed("keyword", map(begin)), span(-1, 1, 2))]
        }
        Keys::AndAfter(_) | Keys::AndStored(_) => {
            let unknown = || typed("unknown", Reply::Map(Vec::new()));
            vec![one(index(1), span(0, 1, 0)), one(unknown(), unknown())]
        }
    }
}

fn index(at: i64) -> Reply {
    typed("index", map([("index", Reply::Int(at))]))
}

fn span(last: i64, step: i64, limit: i64) -> Reply {
    let fields = [("lastkey", last), ("keystep", step), ("limit", limit)];
    typed("range", map(fields.map(|(name, value)| (name, Reply::Int(value)))))
}

fn counted(step: i64) -> Reply {
    let fields = [("keynumidx", 0), ("firstkey", 1), ("keystep", step)];
    typed("keynum", map(fields.map(|(name, value)| (name, Reply::Int(value)))))
}

fn typed(kind: &'static str, spec: Reply) -> Reply {
    map([("type", Reply::bulk(kind.as_bytes())), ("spec", spec)])
}

fn map<const N: usize>(fields: [(&'static str, Reply); N]) -> Reply {
    Reply::Map(fields.into_iter().map(|(name, value)| (Reply::bulk(name.as_bytes()), value)).collect())
}

fn int(index: usize) -> i64 {
    i64::try_from(index).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use crate::table;
    use crate::testing::Desk;

    #[test]
    fn commands_describe_their_arguments() {
        let mut desk = Desk::new();
        desk.expect(&[
            ("COMMAND INFO nope", "*1 $-1"),
            (
                "COMMAND INFO ping",
                "*1 *10 $4 ping :-1 *1 +fast :0 :0 :0 *2 +@fast +@connection *0 *0 *0",
            ),
            (
                "COMMAND INFO watch",
                "*1 *10 $5 watch :-2 *2 +noscript +fast :1 :-1 :1 *2 +@fast +@transaction *0 *1 *6 $5 flags *2 +RO +access $12 begin_search *4 $4 type $5 index $4 spec *2 $5 index :1 $9 find_keys *4 $4 type $5 range $4 spec *6 $7 lastkey :-1 $7 keystep :1 $5 limit :0 *0",
            ),
            ("COMMAND INFO client|id", "*1 *10 $9 client|id :2 *1 +noscript :0 :0 :0 *2 +@slow +@connection *0 *0 *0"),
        ]);
        let all = format!("*{} ", table::all().count());
        assert!(desk.resp("COMMAND").starts_with(&all));
        assert!(desk.resp("COMMAND INFO").starts_with(&all));
        assert!(desk.resp("COMMAND INFO command").starts_with("*1 *10 $7 command :-1 "));
        Desk::upstash().expect(&[("COMMAND", "*0"), ("COMMAND INFO nope", "*1 $-1")]);
    }
}
