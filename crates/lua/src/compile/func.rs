//! The function that is being compiled: its instructions, constants, registers and scopes. It touches the heap's budget.

use std::rc::Rc;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::op::{NO_REGISTER, Op, Rk};
use super::proto::{Capture, Named, Naming, Proto};
use crate::bounds::{CONSTANTS_MAX, REGISTERS_MAX};
use crate::error::Result;
use crate::heap::Heap;
use crate::value::{StrId, Value};

/// A scope.
#[derive(Debug, Default)]
pub(super) struct Block {
    /// Jumps out of it, if it is a loop.
    pub(super) breaks: Vec<usize>,
    pub(super) is_loop: bool,
    /// A function within it has captured one of its variables.
    pub(super) captured: bool,
    /// The number of variables before it.
    pub(super) outer: usize,
}

/// A constant as a key.
#[derive(PartialEq, Eq, Hash)]
enum Constant {
    Number(u64),
    String(StrId),
    Nil,
    Bool(bool),
}

/// A function that is being compiled.
pub(super) struct Func {
    pub(super) code: Vec<Op>,
    lines: Vec<u32>,
    constants: Vec<Value>,
    by_constant: HashMap<Constant, usize, RandomState>,
    pub(super) protos: Vec<Rc<Proto>>,
    pub(super) captures: Vec<(StrId, Capture)>,
    names: Vec<Named>,
    /// What a register that is no variable was last set from.
    held: Vec<Option<(Naming, Option<StrId>)>>,
    /// Names of the variables in scope; the register of each is its index.
    pub(super) locals: Vec<StrId>,
    pub(super) blocks: Vec<Block>,
    pub(super) free: usize,
    registers: usize,
    pub(super) is_vararg: bool,
    pub(super) params: u8,
    /// Line of the keyword; 0 for a chunk.
    pub(super) line: u32,
    pub(super) bytes: usize,
}

/// The size of an instruction with its line.
const OP_BYTES: usize = 2 * (size_of::<Op>() + size_of::<u32>());

/// The size of a constant.
const CONSTANT_BYTES: usize = 3 * size_of::<Value>();

/// A bound was exceeded, with the message.
pub(super) struct TooMuch(pub(super) &'static str);

impl Func {
    pub(super) fn new(line: u32) -> Func {
        Func {
            code: Vec::new(),
            lines: Vec::new(),
            constants: Vec::new(),
            by_constant: HashMap::default(),
            protos: Vec::new(),
            captures: Vec::new(),
            names: Vec::new(),
            held: Vec::new(),
            locals: Vec::new(),
            blocks: Vec::new(),
            free: 0,
            registers: 2,
            is_vararg: false,
            params: 0,
            line,
            bytes: size_of::<Proto>(),
        }
    }

    /// Its size, with the functions within it that are finished.
    pub(super) fn all_bytes(&self) -> usize {
        self.bytes + self.protos.iter().map(|proto| proto.all_bytes()).sum::<usize>()
    }

    /// The finished function.
    pub(super) fn finish(self, source: Rc<str>) -> Proto {
        Proto {
            code: self.code,
            constants: self.constants,
            protos: self.protos,
            captures: self.captures.into_iter().map(|(_, capture)| capture).collect(),
            lines: self.lines,
            names: self.names,
            source,
            params: self.params,
            is_vararg: self.is_vararg,
            registers: self.registers as u8,
            bytes: self.bytes,
        }
    }

    /// Adds an instruction.
    pub(super) fn emit(&mut self, heap: &mut Heap, op: Op, line: u32) -> Result<usize> {
        heap.charge(OP_BYTES)?;
        self.bytes += OP_BYTES;
        let pc = self.code.len();
        self.note_operands(pc, op);
        self.code.push(op);
        self.lines.push(line);
        self.note_result(op);
        Ok(pc)
    }

    pub(super) fn fix_line(&mut self, line: u32) {
        if let Some(last) = self.lines.last_mut() {
            *last = line;
        }
    }

    pub(super) fn here(&self) -> usize {
        self.code.len()
    }

    /// Removes the last instruction.
    pub(super) fn drop_last(&mut self) {
        self.code.pop();
        self.lines.pop();
        let pc = self.code.len();
        while self.names.last().is_some_and(|named| named.pc as usize == pc) {
            self.names.pop();
        }
    }

    /// The number of a constant.
    pub(super) fn constant(&mut self, heap: &mut Heap, value: Value) -> Result<Result<usize, TooMuch>> {
        let key = match value {
            Value::Num(number) => Constant::Number(number.to_bits()),
            Value::Str(id) => Constant::String(id),
            Value::Bool(yes) => Constant::Bool(yes),
            _ => Constant::Nil,
        };
        if let Some(index) = self.by_constant.get(&key) {
            return Ok(Ok(*index));
        }
        if self.constants.len() >= CONSTANTS_MAX {
            return Ok(Err(TooMuch("constant table overflow")));
        }
        heap.charge(CONSTANT_BYTES)?;
        self.bytes += CONSTANT_BYTES;
        self.constants.push(value);
        self.by_constant.insert(key, self.constants.len() - 1);
        Ok(Ok(self.constants.len() - 1))
    }

    /// Allocates the next registers.
    pub(super) fn reserve(&mut self, count: usize) -> Result<(), TooMuch> {
        if self.free + count >= REGISTERS_MAX {
            return Err(TooMuch("function or expression too complex"));
        }
        self.free += count;
        self.registers = self.registers.max(self.free);
        Ok(())
    }

    /// Frees a register, unless it is a variable's.
    pub(super) fn release(&mut self, register: u8) {
        if usize::from(register) >= self.locals.len() && usize::from(register) + 1 == self.free {
            self.free -= 1;
        }
    }

    pub(super) fn release_rk(&mut self, rk: Rk) {
        if let Some(register) = rk.as_register() {
            self.release(register);
        }
    }

    /// Sets the target of a jump.
    pub(super) fn fix_jump(&mut self, pc: usize, target: usize) {
        let distance = target as i32 - (pc as i32 + 1);
        match &mut self.code[pc] {
            Op::Jump { by } | Op::ForPrep { by, .. } | Op::ForLoop { by, .. } | Op::IterLoop { by, .. } => {
                *by = distance;
            }
            _ => {}
        }
    }

    pub(super) fn fix_jumps(&mut self, jumps: &[usize], target: usize) {
        for pc in jumps {
            // If the value is not used, the test need not set it.
            self.take_value(*pc, NO_REGISTER);
            self.fix_jump(*pc, target);
        }
    }

    /// If the test of a jump also sets a register, replaces it by this one, or none. Returns whether it is such a test.
    pub(super) fn take_value(&mut self, jump: usize, register: u8) -> bool {
        let Some(control) = jump.checked_sub(1) else { return false };
        let Op::TestSet { b, want, .. } = self.code[control] else { return false };
        self.code[control] = if register != NO_REGISTER && register != b {
            Op::TestSet { a: register, b, want }
        } else {
            Op::Test { a: b, want }
        };
        true
    }

    /// Whether a jump produces a value.
    pub(super) fn brings_value(&self, jump: usize) -> bool {
        jump > 0 && matches!(self.code[jump - 1], Op::TestSet { .. })
    }

    /// Negates the test before a jump.
    pub(super) fn invert(&mut self, jump: usize) {
        match &mut self.code[jump - 1] {
            Op::Equal { want, .. } | Op::Less { want, .. } | Op::LessEqual { want, .. } => *want = !*want,
            _ => {}
        }
    }

    /// Sets the register of an instruction that was emitted without one.
    pub(super) fn set_target(&mut self, pc: usize, register: u8) {
        let Some(a) = self.code[pc].target_mut() else { return };
        *a = register;
        self.note_result(self.code[pc]);
    }

    // What registers hold, for errors.

    fn held_mut(&mut self, register: u8) -> &mut Option<(Naming, Option<StrId>)> {
        let at = usize::from(register);
        if self.held.len() <= at {
            self.held.resize(at + 1, None);
        }
        &mut self.held[at]
    }

    /// What this register holds is no longer known.
    pub(super) fn forget(&mut self, register: u8) {
        *self.held_mut(register) = None;
    }

    fn held(&self, register: u8) -> Option<(Naming, Option<StrId>)> {
        match self.locals.get(usize::from(register)) {
            Some(name) => Some((Naming::Local, Some(*name))),
            None => self.held.get(usize::from(register)).copied().flatten(),
        }
    }

    /// Whether a constant is a string.
    pub(super) fn is_string(&self, index: usize) -> bool {
        self.string_constant(index).is_some()
    }

    fn string_constant(&self, index: usize) -> Option<StrId> {
        if let Some(Value::Str(id)) = self.constants.get(index) { Some(*id) } else { None }
    }

    fn key_name(&self, key: Rk) -> Option<StrId> {
        match key.as_register() {
            None => self.string_constant(usize::from(key.0 & !Rk::CONSTANT)),
            Some(_) => None,
        }
    }

    fn note_result(&mut self, op: Op) {
        let (register, held) = match op {
            Op::Move { a, b } => (a, self.held(b)),
            Op::GetGlobal { a, k } => (a, Some((Naming::Global, self.string_constant(k as usize)))),
            Op::GetUpvalue { a, up } => {
                let name = self.captures.get(usize::from(up)).map(|(name, _)| *name);
                (a, Some((Naming::Upvalue, name)))
            }
            Op::GetField { a, k, .. } => (a, Some((Naming::Field, self.string_constant(usize::from(k))))),
            Op::GetIndex { a, key, .. } => (a, Some((Naming::Field, self.key_name(key)))),
            Op::Method { a, key, .. } => (a, Some((Naming::Method, self.key_name(key)))),
            Op::LoadNil { a, last } => {
                (a..=last).for_each(|register| self.forget(register));
                return;
            }
            mut other => match other.target_mut() {
                Some(a) => (*a, None),
                None => return,
            },
        };
        if register != NO_REGISTER {
            *self.held_mut(register) = held;
        }
    }

    /// Records what this register holds, for an error of the last instruction.
    pub(super) fn note(&mut self, pc: usize, register: u8) {
        if let Some((naming, name)) = self.held(register) {
            self.names.push(Named { pc: pc as u32, register, naming, name });
        }
    }

    fn note_rk(&mut self, pc: usize, rk: Rk) {
        if let Some(register) = rk.as_register() {
            self.note(pc, register);
        }
    }

    fn note_operands(&mut self, pc: usize, op: Op) {
        match op {
            Op::GetIndex { table, .. } | Op::GetField { table, .. } | Op::SetIndex { table, .. } => {
                self.note(pc, table);
            }
            Op::Method { object, .. } => self.note(pc, object),
            Op::Add { b, c, .. }
            | Op::Sub { b, c, .. }
            | Op::Mul { b, c, .. }
            | Op::Div { b, c, .. }
            | Op::Mod { b, c, .. }
            | Op::Pow { b, c, .. } => {
                self.note_rk(pc, b);
                self.note_rk(pc, c);
            }
            Op::Negate { b, .. } | Op::Length { b, .. } => self.note(pc, b),
            Op::Concat { first, last, .. } => (first..=last).for_each(|register| self.note(pc, register)),
            Op::Call { a, .. } | Op::TailCall { a, .. } => self.note(pc, a),
            _ => {}
        }
    }

    /// Turns a call whose results are returned into a tail call.
    pub(super) fn make_tail_call(&mut self, pc: usize) {
        if let Op::Call { a, args, .. } = self.code[pc] {
            self.code[pc] = Op::TailCall { a, args };
        }
    }
}
