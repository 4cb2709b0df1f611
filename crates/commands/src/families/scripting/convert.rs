//! Conversion of replies to Lua values and back, as in Redis. It touches nothing.

use keystead_lua::number::to_long;
use keystead_lua::{Host, Result, TableId, Value, Vm};

use crate::bounds::SCRIPT_REPLY_DEPTH_MAX;
use crate::errors::Fail;
use crate::number::format_float;
use crate::reply::Reply;

/// Names of fields, interned so that they are not looked up for every table.
#[derive(Clone, Copy)]
pub(super) struct Names {
    pub(super) ok: Value,
    okay: Value,
    pub(super) err: Value,
    double: Value,
    big_number: Value,
    verbatim_string: Value,
    string: Value,
    format: Value,
    txt: Value,
    map: Value,
    set: Value,
    ignore: Value,
    pub(super) keys: Value,
    pub(super) argv: Value,
}

impl Names {
    pub(super) fn new(vm: &mut Vm) -> Result<Names> {
        Ok(Names {
            ok: vm.string(b"ok")?,
            okay: vm.string(b"OK")?,
            err: vm.string(b"err")?,
            double: vm.string(b"double")?,
            big_number: vm.string(b"big_number")?,
            verbatim_string: vm.string(b"verbatim_string")?,
            string: vm.string(b"string")?,
            format: vm.string(b"format")?,
            txt: vm.string(b"txt")?,
            map: vm.string(b"map")?,
            set: vm.string(b"set")?,
            ignore: vm.string(b"ignore_error_stats_update")?,
            keys: vm.string(b"KEYS")?,
            argv: vm.string(b"ARGV")?,
        })
    }
}

/// A reply as a script receives it. `resp3`: the script selected maps, sets and doubles (`redis.setresp(3)`).
pub(super) fn to_lua(vm: &mut Vm, names: &Names, reply: &Reply, resp3: bool) -> Result<Value> {
    Ok(match reply {
        Reply::Ok => field(vm, names.ok, names.okay)?,
        Reply::Status(text) => {
            let text = vm.string(text.as_bytes())?;
            field(vm, names.ok, text)?
        }
        Reply::Int(value) => Value::Num(*value as f64),
        Reply::Bulk(bytes) => vm.string(bytes)?,
        Reply::Nil | Reply::NilArray if resp3 => Value::Nil,
        Reply::Nil | Reply::NilArray => Value::Bool(false),
        Reply::Array(items) | Reply::Push(items) | Reply::Several(items) => {
            list(vm, names, items.iter(), items.len(), resp3)?
        }
        Reply::Set(items) if resp3 => {
            let set = vm.table(0, items.len())?;
            for item in items {
                let item = to_lua(vm, names, item, resp3)?;
                vm.raw_set(set, item, Value::Bool(true))?;
            }
            field(vm, names.set, set.into())?
        }
        Reply::Set(items) => list(vm, names, items.iter(), items.len(), resp3)?,
        Reply::Map(pairs) | Reply::Dict(pairs) if resp3 => map(vm, names, pairs)?,
        Reply::Map(pairs) => flat(vm, names, pairs, resp3)?,
        Reply::Pairs(pairs) if !resp3 => flat(vm, names, pairs, resp3)?,
        Reply::Pairs(pairs) | Reply::Dict(pairs) => {
            let table = vm.table(pairs.len(), 0)?;
            for (i, (name, value)) in pairs.iter().enumerate() {
                let pair = list(vm, names, [name, value].into_iter(), 2, resp3)?;
                vm.raw_set(table, Value::Num((i + 1) as f64), pair)?;
            }
            table.into()
        }
        Reply::Double(value) if resp3 => field(vm, names.double, Value::Num(*value))?,
        Reply::Double(value) => vm.string(format_float(*value).as_bytes())?,
        Reply::Number(text) if resp3 => {
            let value = crate::number::parse_float(text.as_bytes()).unwrap_or(f64::NAN);
            field(vm, names.double, Value::Num(value))?
        }
        Reply::BigNumber(text) if resp3 => {
            let text = vm.string(text.as_bytes())?;
            field(vm, names.big_number, text)?
        }
        Reply::Number(text) | Reply::BigNumber(text) => vm.string(text.as_bytes())?,
        Reply::Bool(yes) if resp3 => Value::Bool(*yes),
        Reply::Bool(yes) => Value::Num(f64::from(u8::from(*yes))),
        Reply::Verbatim(text) if resp3 => {
            let parts = vm.table(0, 2)?;
            let text = vm.string(text.as_bytes())?;
            vm.raw_set(parts, names.string, text)?;
            vm.raw_set(parts, names.format, names.txt)?;
            field(vm, names.verbatim_string, parts.into())?
        }
        Reply::Verbatim(text) => vm.string(text.as_bytes())?,
        Reply::Error(fail) => error_table(vm, names, &error_words(fail), true)?,
    })
}

/// An error table, as redis.pcall returns it. `counted`: the error of a command, already counted.
pub(super) fn error_table(vm: &mut Vm, names: &Names, words: &str, counted: bool) -> Result<Value> {
    let table = vm.table(0, 2)?;
    let words = vm.string(words.as_bytes())?;
    vm.raw_set(table, names.err, words)?;
    if counted {
        vm.raw_set(table, names.ignore, Value::Bool(true))?;
    }
    Ok(table.into())
}

/// The text of an error as scripts receive it: without a code, it gets `ERR`.
pub(super) fn error_words(fail: &Fail) -> String {
    coded(&fail.line())
}

/// An error text with its code.
pub(super) fn coded(line: &str) -> String {
    match line.split_once(' ') {
        Some((code, words)) => format!("{code} {}", words.trim_matches(['\r', '\n'])),
        None => format!("ERR {}", line.trim_matches(['\r', '\n'])),
    }
}

fn field(vm: &mut Vm, name: Value, value: Value) -> Result<Value> {
    let table = vm.table(0, 1)?;
    vm.raw_set(table, name, value)?;
    Ok(table.into())
}

fn list<'r>(
    vm: &mut Vm,
    names: &Names,
    items: impl Iterator<Item = &'r Reply>,
    count: usize,
    resp3: bool,
) -> Result<Value> {
    let table = vm.table(count, 0)?;
    // By index: a null of RESP3 leaves an index unset.
    for (i, item) in items.enumerate() {
        let item = to_lua(vm, names, item, resp3)?;
        vm.raw_set(table, Value::Num((i + 1) as f64), item)?;
    }
    Ok(table.into())
}

fn flat(vm: &mut Vm, names: &Names, pairs: &[(Reply, Reply)], resp3: bool) -> Result<Value> {
    list(vm, names, pairs.iter().flat_map(|(name, value)| [name, value]), pairs.len() * 2, resp3)
}

fn map(vm: &mut Vm, names: &Names, pairs: &[(Reply, Reply)]) -> Result<Value> {
    let map = vm.table(0, pairs.len())?;
    for (name, value) in pairs {
        let (name, value) = (to_lua(vm, names, name, true)?, to_lua(vm, names, value, true)?);
        vm.raw_set(map, name, value)?;
    }
    field(vm, names.map, map.into())
}

/// The return value of a script as a reply. Its size counts as memory of the script: a table that occurs in it
/// many times is encoded many times.
pub(super) fn to_reply(
    vm: &mut Vm,
    host: &mut dyn Host,
    names: &Names,
    value: Value,
    resp3: bool,
) -> Result<Reply> {
    Answering { vm, host, names, resp3 }.reply(value, 0)
}

struct Answering<'a> {
    vm: &'a mut Vm,
    host: &'a mut dyn Host,
    names: &'a Names,
    resp3: bool,
}

impl Answering<'_> {
    fn charge(&mut self, bytes: usize) -> Result<()> {
        self.vm.work(self.host, 2 + bytes / 16)?;
        self.vm.charge(size_of::<Reply>() + bytes)
    }

    fn reply(&mut self, value: Value, depth: usize) -> Result<Reply> {
        if depth > SCRIPT_REPLY_DEPTH_MAX {
            return Ok(Reply::Error(Fail::fixed("ERR reached lua stack limit")));
        }
        Ok(match value {
            Value::Str(id) => {
                self.charge(self.vm.bytes(id).len())?;
                Reply::Bulk(self.vm.bytes(id).into())
            }
            Value::Table(table) => {
                self.charge(0)?;
                self.table(table, depth + 1)?
            }
            other => {
                self.charge(0)?;
                match other {
                    Value::Num(number) => Reply::Int(to_long(number)),
                    Value::Bool(yes) if self.resp3 => Reply::Bool(yes),
                    Value::Bool(true) => Reply::Int(1),
                    _ => Reply::Nil,
                }
            }
        })
    }

    /// A text as C sees it: up to the first zero byte.
    fn text(&mut self, value: Value) -> Result<Option<String>> {
        let Value::Str(id) = value else { return Ok(None) };
        self.charge(self.vm.bytes(id).len())?;
        Ok(Some(c_text(self.vm.bytes(id))))
    }

    fn table(&mut self, table: TableId, depth: usize) -> Result<Reply> {
        let names = *self.names;
        if let Some(words) = self.text(self.vm.raw_get(table, names.err))? {
            return Ok(Reply::Error(Fail::text(words.trim_matches(['\r', '\n']).to_owned())));
        }
        if let Some(words) = self.text(self.vm.raw_get(table, names.ok))? {
            return Ok(Reply::Status(words.replace(['\r', '\n'], " ").into()));
        }
        if let Value::Num(number) = self.vm.raw_get(table, names.double) {
            return Ok(Reply::Double(number));
        }
        if let Value::Str(digits) = self.vm.raw_get(table, names.big_number) {
            self.charge(self.vm.bytes(digits).len())?;
            let digits = String::from_utf8_lossy(self.vm.bytes(digits)).replace(['\r', '\n'], " ");
            return Ok(Reply::BigNumber(digits));
        }
        if let Value::Table(parts) = self.vm.raw_get(table, names.verbatim_string)
            && let (Value::Str(_), Value::Str(text)) =
                (self.vm.raw_get(parts, names.format), self.vm.raw_get(parts, names.string))
        {
            self.charge(self.vm.bytes(text).len())?;
            return Ok(Reply::Verbatim(String::from_utf8_lossy(self.vm.bytes(text)).into_owned()));
        }
        if let Value::Table(map) = self.vm.raw_get(table, names.map) {
            let mut pairs = Vec::new();
            self.each(map, |this, name, value| {
                pairs.push((this.reply(name, depth)?, this.reply(value, depth)?));
                Ok(())
            })?;
            return Ok(Reply::Map(pairs));
        }
        if let Value::Table(set) = self.vm.raw_get(table, names.set) {
            let mut items = Vec::new();
            self.each(set, |this, item, _| {
                items.push(this.reply(item, depth)?);
                Ok(())
            })?;
            return Ok(Reply::Set(items));
        }
        let mut items = Vec::new();
        for i in 1.. {
            match self.vm.raw_index(table, i) {
                Value::Nil => break,
                value => items.push(self.reply(value, depth)?),
            }
        }
        Ok(Reply::Array(items))
    }

    fn each(
        &mut self,
        table: TableId,
        mut each: impl FnMut(&mut Self, Value, Value) -> Result<()>,
    ) -> Result<()> {
        let mut key = Value::Nil;
        while let Some((next, value)) = self.vm.raw_next(table, key)
            && !next.is_nil()
        {
            each(self, next, value)?;
            key = next;
        }
        Ok(())
    }
}

/// An error text as it is sent.
pub(super) fn line_of(words: &[u8]) -> String {
    c_text(words).trim_matches(['\r', '\n']).to_owned()
}

fn c_text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
