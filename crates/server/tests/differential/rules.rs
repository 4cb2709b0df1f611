//! How replies are compared: byte for byte, but for the commands in one table. It touches nothing.

use crate::script::Request;
use crate::wire::Value;

/// How the reply of a command is compared. Errors are always compared byte for byte.
#[derive(Clone, Copy)]
pub(crate) enum Rule {
    Exact,
    /// The elements in any order.
    Unordered,
    /// Pairs of elements, or the entries of a map, in any order.
    UnorderedPairs,
    /// Numbers that are not negative may differ by so much: they are times.
    Near(i64),
    /// Only the type of the reply: it has facts about the server.
    Shape,
    /// Only how many elements there are.
    Count,
    /// Chosen at random: as many elements, `reply` values each, out of those in the reply before, `all` values each.
    Random {
        reply: usize,
        all: usize,
    },
    /// Equal but for the form of doubles.
    Numbers,
    /// Equal after this.
    Masked(fn(&Value) -> Value),
    /// It depends on the arguments.
    By(fn(&Request) -> Rule),
}

/// Seconds by which servers may differ: one may be stopped for a while between two commands.
const SECONDS: i64 = 60;

/// Commands whose replies cannot be equal byte for byte.
const RULES: &[(&str, Rule)] = &[
    // Times.
    ("TTL", Rule::Near(SECONDS)),
    ("PTTL", Rule::Near(SECONDS * 1000)),
    ("EXPIRETIME", Rule::Near(SECONDS)),
    ("PEXPIRETIME", Rule::Near(SECONDS * 1000)),
    ("HTTL", Rule::Near(SECONDS)),
    ("HPTTL", Rule::Near(SECONDS * 1000)),
    ("HEXPIRETIME", Rule::Near(SECONDS)),
    ("HPEXPIRETIME", Rule::Near(SECONDS * 1000)),
    ("OBJECT IDLETIME", Rule::Near(SECONDS)),
    ("TIME", Rule::Shape),
    ("XADD", Rule::By(own_id)),
    ("XTRIM", Rule::By(trim)),
    ("XPENDING", Rule::Masked(mask_idle_of_entries)),
    ("XINFO STREAM", Rule::Masked(mask_facts)),
    ("XINFO CONSUMERS", Rule::Masked(mask_facts)),
    // What has no order.
    ("KEYS", Rule::Unordered),
    ("SMEMBERS", Rule::Unordered),
    ("SINTER", Rule::Unordered),
    ("SUNION", Rule::Unordered),
    ("SDIFF", Rule::Unordered),
    ("HKEYS", Rule::Unordered),
    ("HVALS", Rule::Unordered),
    ("HGETALL", Rule::UnorderedPairs),
    ("PUBSUB CHANNELS", Rule::Unordered),
    ("PUBSUB SHARDCHANNELS", Rule::Unordered),
    ("SORT", Rule::By(sort)),
    ("SORT_RO", Rule::By(sort)),
    ("GEOSEARCH", Rule::By(geo)),
    ("GEORADIUS", Rule::By(geo)),
    ("GEORADIUS_RO", Rule::By(geo)),
    ("GEORADIUSBYMEMBER", Rule::By(geo)),
    ("GEORADIUSBYMEMBER_RO", Rule::By(geo)),
    // Random.
    ("RANDOMKEY", Rule::Random { reply: 1, all: 1 }),
    ("SPOP", Rule::Random { reply: 1, all: 1 }),
    ("SRANDMEMBER", Rule::Random { reply: 1, all: 1 }),
    ("HRANDFIELD", Rule::By(random_field)),
    ("ZRANDMEMBER", Rule::By(random_member)),
    // One call of an iteration: where its cursor stands is each server's own affair.
    ("SCAN", Rule::By(iteration)),
    ("HSCAN", Rule::By(iteration)),
    ("SSCAN", Rule::By(iteration)),
    ("ZSCAN", Rule::By(iteration_of_scores)),
    // Facts about the server.
    ("INFO", Rule::Shape),
    ("HELLO", Rule::Shape),
    ("CLIENT ID", Rule::Shape),
    ("CLIENT INFO", Rule::Shape),
    ("CLIENT LIST", Rule::Shape),
    ("CLIENT HELP", Rule::Shape),
    ("SCRIPT HELP", Rule::Shape),
    ("FUNCTION HELP", Rule::Shape),
    // Redis compresses, which Keystead reads and does not do.
    ("FUNCTION DUMP", Rule::Shape),
    ("CONFIG GET", Rule::Shape),
    ("CONFIG HELP", Rule::Shape),
    ("COMMAND", Rule::Shape),
    ("COMMAND COUNT", Rule::Shape),
    ("COMMAND DOCS", Rule::Shape),
    ("COMMAND HELP", Rule::Shape),
    ("COMMAND INFO", Rule::Shape),
    ("COMMAND LIST", Rule::Shape),
    ("MEMORY USAGE", Rule::Shape),
    ("MEMORY DOCTOR", Rule::Shape),
    ("MEMORY STATS", Rule::Shape),
    ("MEMORY MALLOC-STATS", Rule::Shape),
    ("MEMORY HELP", Rule::Shape),
    ("OBJECT ENCODING", Rule::Shape),
    ("OBJECT REFCOUNT", Rule::Shape),
    ("OBJECT HELP", Rule::Shape),
    ("XINFO HELP", Rule::Shape),
    ("XGROUP HELP", Rule::Shape),
    ("PUBSUB HELP", Rule::Shape),
    ("MODULE HELP", Rule::Shape),
    ("SLOWLOG GET", Rule::Shape),
    ("SLOWLOG LEN", Rule::Shape),
    ("SLOWLOG HELP", Rule::Shape),
    ("LATENCY HELP", Rule::Shape),
    ("LATENCY DOCTOR", Rule::Shape),
    ("LATENCY LATEST", Rule::Shape),
    ("LATENCY HISTOGRAM", Rule::Shape),
    ("ACL LIST", Rule::Shape),
    ("ACL CAT", Rule::Shape),
    ("ACL GETUSER", Rule::Shape),
    ("ACL GENPASS", Rule::Shape),
    ("ACL LOG", Rule::Shape),
    ("DEBUG HELP", Rule::Shape),
    ("ACL HELP", Rule::Shape),
    ("LASTSAVE", Rule::Shape),
    ("ROLE", Rule::Shape),
    ("LOLWUT", Rule::Shape),
];

/// The rule of a request.
pub(crate) fn rule(request: &Request) -> Rule {
    let capitals = |argument: &Vec<u8>| String::from_utf8_lossy(argument).to_uppercase();
    let Some(name) = request.first().map(capitals) else { return Rule::Exact };
    let with_next = request.get(1).map(|next| format!("{name} {}", capitals(next)));
    let row = |name: &str| RULES.iter().find(|(row, _)| *row == name).map(|(_, rule)| *rule);
    match with_next.and_then(|name| row(&name)).or_else(|| row(&name)) {
        Some(Rule::By(rule)) => rule(request),
        found => found.unwrap_or(Rule::Exact),
    }
}

/// Whether an option is among the arguments.
fn has(request: &Request, option: &str) -> bool {
    request.iter().skip(1).any(|argument| argument.eq_ignore_ascii_case(option.as_bytes()))
}

/// An id that the server makes out of its clock.
fn own_id(request: &Request) -> Rule {
    if has(request, "*") { Rule::Shape } else { Rule::Exact }
}

/// An approximate trim of a stream that may have deleted entries. Stream x:9 has none.
fn trim(request: &Request) -> Rule {
    let holes = request.get(1).is_none_or(|key| !key.ends_with(b"x:9"));
    if has(request, "~") && holes { Rule::Shape } else { Rule::Exact }
}

/// Numbers that are equal leave the order to the elements, so it is one and the same; texts that are equal do not, and Redis
/// reads texts up to their first zero byte. Without an order (BY a pattern without `*`) that of a set is its own affair.
fn sort(request: &Request) -> Rule {
    let patterns = request.windows(2).filter(|pair| pair[0].eq_ignore_ascii_case(b"BY"));
    let unsorted = patterns.clone().any(|pair| !pair[1].contains(&b'*'));
    let (by, get) = (patterns.count() > 0, has(request, "GET"));
    if has(request, "STORE") || !unsorted && !has(request, "ALPHA") {
        return Rule::Exact;
    }
    match has(request, "LIMIT") {
        _ if !by && !get => Rule::Masked(c_texts),
        true => Rule::Count,
        false => Rule::Unordered,
    }
}

/// Texts up to their first zero byte.
fn c_texts(value: &Value) -> Value {
    match value {
        Value::Bulk(mark, Some(text)) => {
            Value::Bulk(*mark, text.split(|byte| *byte == 0).next().map(<[u8]>::to_vec))
        }
        Value::Many(mark, Some(items)) => Value::Many(*mark, Some(items.iter().map(c_texts).collect())),
        other => other.clone(),
    }
}

/// Geo searches return results in the server's own order unless one is requested; with ANY, any of them.
fn geo(request: &Request) -> Rule {
    if has(request, "ANY") {
        return Rule::Count;
    }
    let ordered = ["ASC", "DESC", "COUNT"].iter().any(|option| has(request, option));
    if ordered { Rule::Exact } else { Rule::Unordered }
}

fn random_field(request: &Request) -> Rule {
    Rule::Random { reply: if has(request, "WITHVALUES") { 2 } else { 1 }, all: 2 }
}

fn random_member(request: &Request) -> Rule {
    let width = if has(request, "WITHSCORES") { 2 } else { 1 };
    Rule::Random { reply: width, all: width }
}

fn iteration(request: &Request) -> Rule {
    if has(request, "<cursor>") { Rule::Exact } else { Rule::Shape }
}

/// Redis and Valkey write scores here in another form than elsewhere once a sorted set is large; Keystead does not.
fn iteration_of_scores(request: &Request) -> Rule {
    if has(request, "<cursor>") { Rule::Numbers } else { Rule::Shape }
}

/// Entries of XPENDING: id, consumer, idle time, deliveries.
fn mask_idle_of_entries(value: &Value) -> Value {
    let Value::Many(mark, Some(items)) = value else { return value.clone() };
    let masked = items.iter().map(|item| match item.items() {
        Some([id, consumer, Value::Line(b':', _), count @ Value::Line(b':', _)]) => {
            let idle = Value::Line(b':', b"idle".to_vec());
            Value::Many(*mark, Some(vec![id.clone(), consumer.clone(), idle, count.clone()]))
        }
        _ => item.clone(),
    });
    Value::Many(*mark, Some(masked.collect()))
}

/// Facts that differ: idle times, moments, and the nodes of Redis's own radix trees.
pub(crate) fn mask_facts(value: &Value) -> Value {
    const NAMES: [&[u8]; 6] =
        [b"idle", b"inactive", b"radix-tree-keys", b"radix-tree-nodes", b"seen-time", b"active-time"];
    let Value::Many(mark, Some(items)) = value else {
        // A moment in milliseconds of this age.
        let moment =
            value.int().is_some_and(|number| (1_500_000_000_000..4_000_000_000_000).contains(&number));
        return if moment { Value::Line(b':', b"now".to_vec()) } else { value.clone() };
    };
    let mut masked: Vec<Value> = Vec::with_capacity(items.len());
    for item in items {
        let name = masked.last().and_then(Value::bytes);
        let hide = matches!(item, Value::Line(..)) && name.is_some_and(|name| NAMES.contains(&name));
        masked.push(if hide { Value::Line(b':', b"fact".to_vec()) } else { mask_facts(item) });
    }
    Value::Many(*mark, Some(masked))
}
