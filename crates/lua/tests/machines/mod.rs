//! Runs a program on both interpreters: this one, and Lua 5.1 in C.

use keystead_lua::{Args, Host, Result, Value, Vm};

struct Patient(u64);

impl Host for Patient {
    fn is_over(&mut self) -> bool {
        self.0 = self.0.saturating_sub(1);
        self.0 == 0
    }

    fn call(&mut self, _: &mut Vm, _: u32, _: Args) -> Result<usize> {
        Ok(0)
    }
}

/// Prints a value so that two interpreters can be compared: everything but addresses.
const SHOW: &str = r#"
local function show(v, depth)
  local t = type(v)
  if t == 'string' then return string.format('%q', v) end
  if t == 'number' then return string.format('%.17g', v) end
  if t == 'table' then
    if depth > 3 then return '{...}' end
    local parts = {}
    for k, x in pairs(v) do parts[#parts + 1] = show(k, depth + 1) .. '=' .. show(x, depth + 1) end
    return '{' .. table.concat(parts, ',') .. '}'
  end
  if t == 'boolean' or t == 'nil' then return tostring(v) end
  return t
end
local function pack(...)
  local parts = {}
  for i = 1, select('#', ...) do parts[i] = show((select(i, ...)), 0) end
  return table.concat(parts, ' ')
end
local chunk, words = loadstring(PROGRAM, '@test')
if not chunk then return 'syntax: ' .. words end
return pack(pcall(chunk))
"#;

pub(crate) fn ours(program: &str) -> String {
    let mut vm = Vm::new(64 * 1024 * 1024).unwrap();
    let mut host = Patient(100_000);
    let text = vm.string(program.as_bytes()).unwrap();
    let globals = vm.globals();
    vm.set_field(globals, "PROGRAM", text).unwrap();
    let script = vm.compile(&mut host, SHOW.as_bytes(), b"@show").unwrap().unwrap();
    match vm.run(&mut host, script.value(), &[]) {
        Ok(values) => match values[..] {
            [Value::Str(id)] => String::from_utf8_lossy(vm.bytes(id)).into_owned(),
            _ => panic!("{values:?}"),
        },
        Err(error) => format!("stopped: {error:?}"),
    }
}

pub(crate) fn theirs(program: &str) -> String {
    let lua = mlua::Lua::new();
    lua.globals().set("PROGRAM", program).unwrap();
    let text: mlua::LuaString = lua.load(SHOW).set_name("@show").call(()).unwrap();
    text.to_string_lossy()
}
