//! Compares the replies of Keystead with those of the judges. Touches nothing.

use std::collections::{HashMap, VecDeque};

use keystead_commands::Spec;

use crate::coverage::{Coverage, row};
use crate::known;
use crate::rules::{Rule, rule};
use crate::run::Ran;
use crate::script::{Request, Script, Step, Use};
use crate::wire::Value;

/// One reply, and what the judges said.
pub(crate) struct Case<'a> {
    pub(crate) request: &'a Request,
    pub(crate) redis: Option<&'a Value>,
    pub(crate) valkey: Option<&'a Value>,
    pub(crate) subject: &'a Value,
    /// Keystead's previous reply.
    pub(crate) before: Option<&'a Value>,
    /// Whether Keystead keeps the keys on several shards.
    pub(crate) sharded: bool,
}

/// The result of comparing a script.
pub(crate) enum Outcome {
    /// Every reply is right.
    Same,
    /// The replies to this step differ.
    Differs(usize),
    /// Every reply is right up to this step, after which the judges hold different keys, so that nothing can be judged.
    Parted(usize),
}

/// Compares the replies, step by step.
pub(crate) fn compare(script: &Script, ran: &Ran, coverage: &mut Coverage) -> Outcome {
    let steps: Vec<&Step> = script.steps().collect();
    // What is queued in a transaction, by connection.
    let mut queued: HashMap<char, Vec<Request>> = HashMap::new();
    // What was sent and not received, by connection.
    let mut sent: HashMap<char, VecDeque<&Request>> = HashMap::new();
    for (place, step) in steps.iter().enumerate() {
        let mut request = &step.args;
        if step.usage() == Use::Waiting {
            let sent = sent.entry(step.conn).or_default();
            match step.args.is_empty() {
                true => request = sent.pop_front().unwrap_or(request),
                false => sent.push_back(request),
            }
        }
        let case = Case {
            request,
            redis: ran.redis.as_ref().map(|replies| &replies[place]),
            valkey: Some(&ran.valkey[place]),
            subject: &ran.subject[place],
            before: place.checked_sub(1).map(|before| &ran.subject[before]),
            sharded: script.sharded,
        };
        coverage.note(case.request, case.subject);
        let queue = queued.entry(step.conn).or_default();
        let holds = match &step.name()[..] {
            "EXEC" if case.subject.items().is_some() => holds_exec(&case, queue, coverage),
            _ => holds(&case),
        };
        // Where only one judge ran a transaction, what the other would have said inside of it is not known.
        if !holds && one_judge_ran(&case) && case.subject.items().is_some() {
            return Outcome::Parted(place);
        }
        if !holds {
            return Outcome::Differs(place);
        }
        if judges_part(&case, queue) || subject_parts(&case) {
            return Outcome::Parted(place);
        }
        match &step.name()[..] {
            // Redis switches the protocol at its position in the queue, Keystead for the whole reply of EXEC.
            "HELLO" if case.subject.is_queued() => return Outcome::Parted(place),
            _ if case.subject.is_queued() => queue.push(first_call(step)),
            "MULTI" if case.subject.is_ok() => queue.clear(),
            "EXEC" | "DISCARD" | "RESET" => queue.clear(),
            _ => {}
        }
    }
    Outcome::Same
}

/// Whether one judge has run what the other has rejected.
fn judges_part(case: &Case<'_>, queue: &[Request]) -> bool {
    let (Some(redis), Some(valkey)) = (case.redis, case.valkey) else { return false };
    if redis == valkey {
        return false;
    }
    // What only one of them has queued makes their transactions differ.
    if redis.is_queued() != valkey.is_queued() {
        return true;
    }
    let part = |redis: &Value, valkey: &Value, request: &Request| {
        redis.is_error() != valkey.is_error() && row(request).is_none_or(Spec::writes)
    };
    match (redis.items(), valkey.items()) {
        (Some(redis), Some(valkey)) if redis.len() == queue.len() && valkey.len() == queue.len() => {
            redis.iter().zip(valkey).zip(queue).any(|((redis, valkey), request)| part(redis, valkey, request))
        }
        _ => part(redis, valkey, case.request) || one_judge_ran(case),
    }
}

/// Whether Keystead has rejected on purpose what a judge has run, or the other way round.
fn subject_parts(case: &Case<'_>) -> bool {
    let replies = case.subject.items().unwrap_or(std::slice::from_ref(case.subject));
    if replies.iter().any(|subject| known::crosses_shards(&Case { subject, ..*case })) {
        return true;
    }
    let (None, Some(valkey)) = (case.redis, case.valkey) else { return false };
    let parts = |(judge, subject): (&Value, &Value)| judge.is_error() != subject.is_error();
    match (valkey.items(), case.subject.items()) {
        (Some(valkey), Some(subject)) => valkey.iter().zip(subject).any(parts),
        _ => parts((valkey, case.subject)),
    }
}

/// Whether one judge ran a transaction that the other gave up.
fn one_judge_ran(case: &Case<'_>) -> bool {
    let ran = |judge: Option<&Value>| judge.is_some_and(|judge| judge.items().is_some());
    let is_exec = case.request.first().is_some_and(|name| name.eq_ignore_ascii_case(b"EXEC"));
    is_exec && case.redis.is_some() && ran(case.redis) != ran(case.valkey)
}

/// What is queued of a step: of an iteration, its first call.
fn first_call(step: &Step) -> Request {
    let mut request = step.args.clone();
    if let Some(place) = step.cursor() {
        request[place] = b"0".to_vec();
    }
    request
}

/// Whether a reply is right.
fn holds(case: &Case<'_>) -> bool {
    let rule = rule(case.request);
    let same = |judge: &Value| same(rule, judge, case);
    let form = |redis: &Value| case.valkey.is_some_and(Value::is_error) && same_numbers(redis, case.subject);
    case.redis.is_some_and(same)
        || case.valkey.is_some_and(same)
        || case.redis.is_some_and(form)
        || known::is_known(case)
}

/// Equal but for the form of doubles, which is Valkey's: it cannot be compared where Valkey rejects the request.
fn same_numbers(a: &Value, b: &Value) -> bool {
    let number = |value: &Value| match value {
        Value::Bulk(b'$', Some(text)) | Value::Line(b',', text) => {
            std::str::from_utf8(text).ok()?.parse::<f64>().ok()
        }
        _ => None,
    };
    match (a, b) {
        (Value::Many(a, Some(x)), Value::Many(b, Some(y))) => {
            a == b && x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same_numbers(x, y))
        }
        _ => a == b || number(a).is_some_and(|a| number(b).is_some_and(|b| a.to_bits() == b.to_bits())),
    }
}

/// Whether each reply inside of EXEC's is right.
fn holds_exec(case: &Case<'_>, queue: &[Request], coverage: &mut Coverage) -> bool {
    if case.redis == Some(case.subject) || case.valkey == Some(case.subject) {
        return true;
    }
    let subject = case.subject.items().unwrap_or_default();
    // The judges differ in what spoils a transaction: then only one of them has run it.
    let ran = |judge: Option<&'_ Value>| {
        judge.and_then(|judge| judge.items().map(<[Value]>::len)) == Some(queue.len())
    };
    let redis = case.redis.filter(|_| ran(case.redis)).and_then(Value::items);
    let valkey = case.valkey.filter(|_| ran(case.valkey)).and_then(Value::items);
    if subject.len() != queue.len() {
        return false;
    }
    for (place, request) in queue.iter().enumerate() {
        coverage.note(request, &subject[place]);
        let case = Case {
            request,
            redis: redis.map(|replies| &replies[place]),
            valkey: valkey.map(|replies| &replies[place]),
            subject: &subject[place],
            before: place.checked_sub(1).map(|before| &subject[before]),
            sharded: case.sharded,
        };
        if !holds(&case) {
            return false;
        }
        if subject_parts(&case) {
            return true;
        }
    }
    true
}

/// Whether two replies are the same under a rule.
fn same(rule: Rule, judge: &Value, case: &Case<'_>) -> bool {
    let subject = case.subject;
    if judge == subject {
        return !subject.is_silence();
    }
    if judge.is_error() || subject.is_error() || judge.is_lost() || subject.is_lost() {
        return false;
    }
    // Frames of a connection with messages: the messages, and the reply among them.
    if judge.as_frames().len() != 1 || subject.as_frames().len() != 1 {
        return same_frames(rule, judge, case);
    }
    let (judge, subject) = (&judge.as_frames()[0], &subject.as_frames()[0]);
    // In a transaction, both have only queued it.
    if judge.is_queued() || subject.is_queued() {
        return false;
    }
    match rule {
        Rule::Exact | Rule::By(_) => false,
        Rule::Unordered => same_mark(judge, subject) && sorted(judge, 1) == sorted(subject, 1),
        Rule::UnorderedPairs => same_mark(judge, subject) && sorted(judge, 2) == sorted(subject, 2),
        Rule::Numbers => same_numbers(judge, subject),
        Rule::Near(by) => near(judge, subject, by),
        Rule::Shape => same_mark(judge, subject),
        Rule::Count => {
            same_mark(judge, subject)
                && judge.items().map(<[Value]>::len) == subject.items().map(<[Value]>::len)
        }
        Rule::Random { reply, all } => random(judge, case, reply, all),
        Rule::Masked(mask) => mask(judge) == mask(subject),
    }
}

/// Whether two replies are of one kind.
fn same_mark(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Line(a, _), Value::Line(b, _)) => a == b,
        (Value::Bulk(a, x), Value::Bulk(b, y)) => a == b && x.is_some() == y.is_some(),
        (Value::Many(a, x), Value::Many(b, y)) => a == b && x.is_some() == y.is_some(),
        _ => false,
    }
}

fn sorted(value: &Value, width: usize) -> Vec<&[Value]> {
    let mut items: Vec<&[Value]> = value.items().unwrap_or_default().chunks(width).collect();
    items.sort();
    items
}

/// Whether the same messages were received, in any order: the order of patterns and channels is up to the server.
fn same_frames(rule: Rule, judge: &Value, case: &Case<'_>) -> bool {
    let part = |value: &Value| value.as_frames().iter().cloned().partition::<Vec<_>, _>(is_message);
    let ((messages, replies), (own_messages, own_replies)) = (part(judge), part(case.subject));
    let same_reply = |(judge, subject)| judge == subject || same(rule, judge, &Case { subject, ..*case });
    sorted_frames(&messages) == sorted_frames(&own_messages)
        && replies.len() == own_replies.len()
        && replies.iter().zip(&own_replies).all(same_reply)
}

fn is_message(frame: &Value) -> bool {
    const KINDS: [&[u8]; 3] = [b"message", b"pmessage", b"smessage"];
    let kind = frame.items().and_then(|items| items.first()?.bytes()).unwrap_or_default();
    KINDS.contains(&kind) || kind.ends_with(b"subscribe")
}

/// Frames without their order; of a message about a subscription that ended, its count apart from its name.
fn sorted_frames(frames: &[Value]) -> Vec<Value> {
    let mut parts = Vec::new();
    for frame in frames {
        match frame.items() {
            Some([kind, name, count @ Value::Line(b':', _)]) => {
                parts.extend([Value::frames(vec![kind.clone(), name.clone()]), count.clone()]);
            }
            _ => parts.push(frame.clone()),
        }
    }
    parts.sort();
    parts
}

/// Equal but for numbers that are times. A negative number means that there is none.
pub(crate) fn near(a: &Value, b: &Value, by: i64) -> bool {
    match (a.int(), b.int()) {
        (Some(a), Some(b)) if a >= 0 && b >= 0 => (a - b).abs() <= by,
        _ => match (a, b) {
            (Value::Many(a, Some(x)), Value::Many(b, Some(y))) => {
                a == b && x.len() == y.len() && x.iter().zip(y).all(|(x, y)| near(x, y, by))
            }
            _ => a == b,
        },
    }
}

/// As many as the judge chose, and nothing that is not there.
fn random(judge: &Value, case: &Case<'_>, width: usize, all_width: usize) -> bool {
    let subject = case.subject;
    if !same_mark(judge, subject) {
        return false;
    }
    let all = case.before.map(flat).unwrap_or_default();
    // Fields come with their values, also where only fields were chosen.
    let all: Vec<&[&Value]> = all.chunks(all_width).map(|one| &one[..width.min(one.len())]).collect();
    if subject.items().is_none() {
        return all.contains(&&[subject][..]);
    }
    let (chosen, expected) = (flat(subject), flat(judge));
    let chosen: Vec<&[&Value]> = chosen.chunks(width).collect();
    let mut distinct = chosen.clone();
    distinct.sort();
    distinct.dedup();
    // A negative count may choose one more than once.
    let repeats = case.request.get(2).is_some_and(|count| count.starts_with(b"-"));
    expected.len() == chosen.len() * width
        && chosen.iter().all(|one| all.contains(one))
        && (repeats || distinct.len() == chosen.len())
}

/// All values inside, without the arrays around them.
fn flat(value: &Value) -> Vec<&Value> {
    match value.items() {
        Some(items) => items.iter().flat_map(flat).collect(),
        None => vec![value],
    }
}
