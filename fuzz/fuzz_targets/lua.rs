//! Scripts, from a grammar or as text: the machine never panics, never exceeds its memory budget, stops when the host ends the run, and `reset`
//! restores its state.

#![no_main]

use std::cell::RefCell;

use keystead_fuzz::lua::program;
use keystead_fuzz::source::Source;
use keystead_lua::{Args, Host, Result, Script, Value, Vm};
use libfuzzer_sys::fuzz_target;

const BYTES_MAX: usize = 1024 * 1024;

/// How often the machine may call `is_over` before the run ends.
const CHECKS_MAX: usize = 20;

/// Shows the state that a run could have changed.
const SEEN: &[u8] = b"
local seen = {}
local function show(name, t)
  for k, v in pairs(t) do
    seen[#seen + 1] = name .. tostring(k) .. type(v)
    if type(v) == 'table' and v ~= _G then show(name .. tostring(k) .. '.', v) end
  end
end
show('', _G)
show('string', getmetatable('') or {})
table.sort(seen)
seen[#seen + 1] = math.random()
seen[#seen + 1] = ('x'):rep(3):upper() .. string.format('%5.1f %q', 2.25, 'a\\nb') .. (tostring(1e15))
seen[#seen + 1] = select('#', pcall(error)) .. type(coroutine.running())
return table.concat(seen, ' ')";

struct Patient {
    checks: usize,
    over: bool,
}

impl Patient {
    fn new() -> Self {
        Patient { checks: 0, over: false }
    }
}

impl Host for Patient {
    fn is_over(&mut self) -> bool {
        assert!(!self.over, "it continues after the end of the run");
        self.checks += 1;
        self.over = self.checks >= CHECKS_MAX;
        self.over
    }

    fn call(&mut self, vm: &mut Vm, _: u32, args: Args) -> Result<usize> {
        assert!(vm.used_bytes() <= BYTES_MAX, "{} bytes are in use", vm.used_bytes());
        Ok(args.len().min(0))
    }
}

/// A machine, and what a run of [`SEEN`] returns on it.
struct Machine {
    vm: Vm,
    look: Script,
    seen: Vec<u8>,
}

impl Machine {
    fn new() -> Self {
        let mut vm = Vm::new(BYTES_MAX).expect("it fits");
        let (globals, check) = (vm.globals(), vm.host_function(0));
        vm.set_field(globals, "check", check).expect("it fits");
        let script = vm.compile(&mut Patient::new(), SEEN, b"@seen").expect("it fits").expect("it is Lua");
        vm.end_calls();
        vm.keep();
        let seen = look(&mut vm, script);
        Machine { vm, look: script, seen }
    }

    fn run(&mut self, text: &[u8]) {
        let (vm, mut host) = (&mut self.vm, Patient::new());
        if let Ok(Ok(script)) = vm.compile(&mut host, text, b"@fuzz") {
            let _ = vm.run(&mut host, script.value(), &[Value::Num(7.0), Value::Nil]);
        }
        assert!(vm.used_bytes() <= BYTES_MAX, "{} bytes are in use", vm.used_bytes());
        vm.reset();
        assert_eq!(vm.used_bytes(), vm.base_bytes(), "something is left of the run");
        let seen = look(vm, self.look);
        assert!(seen == self.seen, "{}\nwas\n{}", seen.escape_ascii(), self.seen.escape_ascii());
    }
}

fn look(vm: &mut Vm, script: Script) -> Vec<u8> {
    let seen = match vm.run(&mut Patient::new(), script.value(), &[]).expect("it runs")[..] {
        [Value::Str(id)] => vm.bytes(id).to_vec(),
        ref other => panic!("{other:?}"),
    };
    vm.reset();
    seen
}

thread_local! {
    static MACHINE: RefCell<Machine> = RefCell::new(Machine::new());
}

fuzz_target!(|bytes: &[u8]| {
    let mut source = Source::new(bytes);
    let text = match source.byte() % 4 {
        0 => source.rest().to_vec(),
        _ => program(&mut source).into_bytes(),
    };
    if std::env::var_os("SHOW").is_some() {
        eprintln!("{}", String::from_utf8_lossy(&text));
    }
    MACHINE.with_borrow_mut(|machine| machine.run(&text));
});
