//! `coroutine`. It touches nothing outside of the machine.

use super::Row;
use crate::bounds::{NATIVE_CALLS_MAX, VALUES_MAX};
use crate::error::{Error, Kind, Result};
use crate::heap::Heap;
use crate::value::{ThreadId, Value};
use crate::vm::coroutine::{Caller, Coroutine, Status};
use crate::vm::{Args, Host, Vm};

pub(super) const ROWS: &[Row] = &[
    ("create", create),
    ("resume", resume),
    ("running", running),
    ("status", status),
    ("wrap", wrap),
    ("yield", yield_),
];

/// Creates the functions that `wrap` returns.
pub(super) const WRAP: &[u8] =
    b"local resume, thread = ... return function(...) return resume(thread, ...) end";

fn new(vm: &mut Vm, args: Args) -> Result<ThreadId> {
    let function = vm.arg(args, 0);
    if !matches!(function, Value::Func(_)) {
        return Err(vm.bad_argument(args, 0, "Lua function expected"));
    }
    vm.heap.thread(Coroutine { stack: vec![function], ..Coroutine::default() })
}

fn create(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<usize> {
    let thread = new(vm, args)?;
    vm.one(Value::Thread(thread))
}

fn wrap(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    let thread = new(vm, args)?;
    let [make, resume] = vm.wrap;
    let function = vm.call_for_one(host, make, &[resume, Value::Thread(thread)])?;
    vm.one(function)
}

fn running(vm: &mut Vm, _: &mut dyn Host, _: Args) -> Result<usize> {
    let value = if vm.resumers.is_empty() { Value::Nil } else { Value::Thread(vm.current) };
    vm.one(value)
}

fn check_thread(vm: &mut Vm, args: Args) -> Result<ThreadId> {
    match vm.arg(args, 0) {
        Value::Thread(id) => Ok(id),
        _ => Err(vm.bad_argument(args, 0, "coroutine expected")),
    }
}

fn status_of(vm: &Vm, id: ThreadId) -> Status {
    if id == vm.current {
        return Status::Running;
    }
    vm.heap.threads.items[id.0 as usize].as_ref().map_or(Status::Dead, |co| co.status)
}

fn status(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<usize> {
    let id = check_thread(vm, args)?;
    let word = word_of(status_of(vm, id));
    let word = vm.string(word.as_bytes())?;
    vm.one(word)
}

fn word_of(status: Status) -> &'static str {
    match status {
        Status::Suspended => "suspended",
        Status::Running => "running",
        Status::Normal => "normal",
        Status::Dead => "dead",
    }
}

fn yield_(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<usize> {
    if vm.resumers.is_empty() || vm.co.loops > 1 || vm.calling == Some(Caller::Native) {
        return Err(vm.fault("attempt to yield across metamethod/C-call boundary"));
    }
    for i in 0..args.len() {
        vm.push(vm.arg(args, i));
    }
    Err(Error::yields(args.len()))
}

fn resume(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    let id = check_thread(vm, args)?;
    vm.push(Value::Bool(true));
    match switch(vm, host, id, args)? {
        Ok(count) => Ok(count + 1),
        Err(value) => {
            vm.push(Value::Bool(false));
            vm.push(value);
            Ok(2)
        }
    }
}

/// Called by the functions of `wrap`: an error is raised again, with the position prepended.
pub(super) fn wrap_resume(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<usize> {
    let id = check_thread(vm, args)?;
    match switch(vm, host, id, args)? {
        Ok(count) => Ok(count),
        Err(value) => {
            if let Value::Str(words) = value {
                let mut text = vm.position_at(2).into_bytes();
                text.extend_from_slice(vm.bytes(words));
                let value = vm.string_owned(text)?;
                return Err(Error::raise(value));
            }
            Err(Error::raise(value))
        }
    }
}

/// Resumes a coroutine until it yields, ends or fails. Pushes its values and returns their number, or what it raised.
fn switch(vm: &mut Vm, host: &mut dyn Host, id: ThreadId, args: Args) -> Result<Result<usize, Value>> {
    let status = status_of(vm, id);
    if status != Status::Suspended {
        let words = format!("cannot resume {} coroutine", word_of(status));
        return vm.string(words.as_bytes()).map(Err);
    }
    if vm.depth >= NATIVE_CALLS_MAX {
        return vm.string(b"C stack overflow").map(Err);
    }
    vm.work(host, 20)?;
    let given = vm.args_from(args, 1).to_vec();
    let Some(mut next) = vm.heap.threads.items[id.0 as usize].take() else {
        return vm.string(b"cannot resume dead coroutine").map(Err);
    };
    next.status = Status::Running;
    let saved = (vm.pc, vm.calling, vm.current);
    let resumed = next.proto.take().unwrap_or_default();
    let proto = std::mem::replace(&mut vm.proto, resumed);
    let mut before = std::mem::replace(&mut vm.co, next);
    before.status = Status::Normal;
    vm.heap.threads.items[vm.current.0 as usize] = Some(before);
    vm.resumers.push(vm.current);
    vm.current = id;
    vm.depth += 1;
    vm.calling = None;
    let ended = run(vm, host, &given);
    vm.depth -= 1;
    vm.resumers.pop();
    (vm.pc, vm.calling, vm.current) = saved;
    let back = vm.heap.threads.items[vm.current.0 as usize].take().unwrap_or_default();
    let mut other = std::mem::replace(&mut vm.co, back);
    other.proto = Some(std::mem::replace(&mut vm.proto, proto));
    vm.co.status = Status::Running;
    let outcome = settle(&mut vm.heap, &mut other, ended);
    vm.heap.threads.items[id.0 as usize] = Some(other);
    match outcome? {
        Ok(values) => {
            if values.len() > VALUES_MAX {
                return vm.string(b"too many results to resume").map(Err);
            }
            values.iter().for_each(|value| vm.push(*value));
            Ok(Ok(values.len()))
        }
        Err(value) => Ok(Err(value)),
    }
}

/// Starts or continues the coroutine that has been switched to. Returns where its values begin.
fn run(vm: &mut Vm, host: &mut dyn Host, given: &[Value]) -> Result<usize> {
    vm.co.loops += 1;
    let result = match vm.co.resume_at.take() {
        None => {
            let function = vm.co.stack.pop().unwrap_or_default();
            vm.co.loops -= 1;
            let result = vm.call(host, function, given);
            vm.co.loops += 1;
            result.map(|_| 0)
        }
        Some((slot, wanted)) => {
            let count = wanted.map_or(given.len(), |wanted| wanted as usize);
            vm.ensure(slot + count)?;
            for i in 0..count {
                vm.co.stack[slot + i] = given.get(i).copied().unwrap_or_default();
            }
            vm.top = slot + count;
            vm.continue_execution(host).map(|()| {
                vm.co.stack.truncate(vm.top);
                0
            })
        }
    };
    vm.co.loops -= 1;
    result
}

/// The result of a coroutine: its values, or what it raised.
fn settle(heap: &mut Heap, co: &mut Coroutine, ended: Result<usize>) -> Result<Result<Vec<Value>, Value>> {
    match ended {
        Ok(from) => {
            co.status = Status::Dead;
            let values = co.stack[from..].to_vec();
            heap.release(co.end());
            Ok(Ok(values))
        }
        Err(error) => match *error.0 {
            Kind::Yield(count) => {
                co.status = Status::Suspended;
                let values = co.stack.split_off(co.stack.len() - count);
                Ok(Ok(values))
            }
            Kind::Raised(value, _) => {
                co.status = Status::Dead;
                Ok(Err(value))
            }
            _ => Err(error),
        },
    }
}
