//! Instructions of the register machine: eight bytes each. It touches nothing.

/// A register, or a constant: the highest bit distinguishes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rk(pub(crate) u16);

impl Rk {
    pub(crate) const CONSTANT: u16 = 0x8000;

    pub(crate) fn register(register: u8) -> Rk {
        Rk(u16::from(register))
    }

    /// A constant, if its number fits.
    pub(crate) fn constant(index: usize) -> Option<Rk> {
        (index < usize::from(Rk::CONSTANT)).then_some(Rk(index as u16 | Rk::CONSTANT))
    }

    pub(crate) fn as_register(self) -> Option<u8> {
        (self.0 & Rk::CONSTANT == 0).then_some(self.0 as u8)
    }
}

/// No register.
pub(crate) const NO_REGISTER: u8 = u8::MAX;

/// An instruction. `a`: the register that it sets, or begins at. Counts of values are stored plus one; 0 is "up to the top".
/// Jumps are relative to the next instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Move {
        a: u8,
        b: u8,
    },
    LoadK {
        a: u8,
        k: u32,
    },
    LoadBool {
        a: u8,
        value: bool,
        skip: bool,
    },
    /// Registers from `a` to `last`.
    LoadNil {
        a: u8,
        last: u8,
    },
    GetUpvalue {
        a: u8,
        up: u8,
    },
    SetUpvalue {
        a: u8,
        up: u8,
    },
    GetGlobal {
        a: u8,
        k: u32,
    },
    SetGlobal {
        a: u8,
        k: u32,
    },
    GetIndex {
        a: u8,
        table: u8,
        key: Rk,
    },
    /// The key is a string among the constants.
    GetField {
        a: u8,
        table: u8,
        k: u16,
    },
    SetIndex {
        table: u8,
        key: Rk,
        value: Rk,
    },
    NewTable {
        a: u8,
        array: u16,
        nodes: u16,
    },
    /// `a` is the method, `a + 1` the object.
    Method {
        a: u8,
        object: u8,
        key: Rk,
    },
    Add {
        a: u8,
        b: Rk,
        c: Rk,
    },
    Sub {
        a: u8,
        b: Rk,
        c: Rk,
    },
    Mul {
        a: u8,
        b: Rk,
        c: Rk,
    },
    Div {
        a: u8,
        b: Rk,
        c: Rk,
    },
    Mod {
        a: u8,
        b: Rk,
        c: Rk,
    },
    Pow {
        a: u8,
        b: Rk,
        c: Rk,
    },
    Negate {
        a: u8,
        b: u8,
    },
    Not {
        a: u8,
        b: u8,
    },
    Length {
        a: u8,
        b: u8,
    },
    Concat {
        a: u8,
        first: u8,
        last: u8,
    },
    Jump {
        by: i32,
    },
    /// Skips the next instruction, a jump, unless the comparison gives `want`.
    Equal {
        want: bool,
        b: Rk,
        c: Rk,
    },
    Less {
        want: bool,
        b: Rk,
        c: Rk,
    },
    LessEqual {
        want: bool,
        b: Rk,
        c: Rk,
    },
    /// Skips the jump behind it unless `a` is as true as `want`.
    Test {
        a: u8,
        want: bool,
    },
    /// The same, and sets `a` to `b` if it does not skip.
    TestSet {
        a: u8,
        b: u8,
        want: bool,
    },
    Call {
        a: u8,
        args: u8,
        results: u8,
    },
    TailCall {
        a: u8,
        args: u8,
    },
    Return {
        a: u8,
        count: u8,
    },
    ForPrep {
        a: u8,
        by: i32,
    },
    ForLoop {
        a: u8,
        by: i32,
    },
    /// Calls the iterator at `a` for so many values at `a + 3`.
    IterCall {
        a: u8,
        count: u8,
    },
    /// Jumps if the iterator returned a value.
    IterLoop {
        a: u8,
        by: i32,
    },
    SetList {
        a: u8,
        count: u8,
        block: u32,
    },
    /// Ends the scope of variables from this register on.
    Close {
        a: u8,
    },
    Closure {
        a: u8,
        proto: u32,
    },
    Vararg {
        a: u8,
        count: u8,
    },
}

impl Op {
    /// The register that it sets, if it sets one.
    pub(crate) fn target_mut(&mut self) -> Option<&mut u8> {
        match self {
            Op::Move { a, .. }
            | Op::LoadK { a, .. }
            | Op::LoadBool { a, .. }
            | Op::GetUpvalue { a, .. }
            | Op::GetGlobal { a, .. }
            | Op::GetIndex { a, .. }
            | Op::GetField { a, .. }
            | Op::NewTable { a, .. }
            | Op::Add { a, .. }
            | Op::Sub { a, .. }
            | Op::Mul { a, .. }
            | Op::Div { a, .. }
            | Op::Mod { a, .. }
            | Op::Pow { a, .. }
            | Op::Negate { a, .. }
            | Op::Not { a, .. }
            | Op::Length { a, .. }
            | Op::Concat { a, .. }
            | Op::TestSet { a, .. }
            | Op::Call { a, .. }
            | Op::Closure { a, .. }
            | Op::Vararg { a, .. } => Some(a),
            _ => None,
        }
    }
}

const _: () = assert!(size_of::<Op>() == 8);
