//! Work that no instruction shows is counted, so that the host can end a run in time.

#![allow(clippy::unwrap_used, reason = "in a test an unexpected error is a failure")]

use keystead_lua::{Args, Host, Result, Vm};

/// Counts how often it is asked whether the time is over.
#[derive(Default)]
struct Counting(usize);

impl Host for Counting {
    fn is_over(&mut self) -> bool {
        self.0 += 1;
        false
    }

    fn call(&mut self, _: &mut Vm, _: u32, _: Args) -> Result<usize> {
        Ok(0)
    }
}

fn checks(vm: &mut Vm, program: &str) -> usize {
    let mut host = Counting::default();
    let script = vm.compile(&mut host, program.as_bytes(), b"@test").unwrap().unwrap();
    vm.run(&mut host, script.value(), &[]).unwrap();
    vm.reset();
    host.0
}

/// A table that is full is rehashed for every key that is added, also after another was deleted.
#[test]
fn every_rehash_of_a_full_table_is_counted() {
    let mut vm = Vm::new(64 << 20).unwrap();
    for prefix in ["k", "key:", "", "a-long-prefix-of-keys-"] {
        for size in [1024, 4096] {
            let program = format!(
                "local t = {{}} for i = 1, {size} do t['{prefix}' .. i .. 'x'] = 1 end
                 for i = 1, 500 do t['{prefix}' .. i .. 'x'] = nil t['n' .. i] = 1 end"
            );
            let (counted, least) = (checks(&mut vm, &program), 400 * size / 10_000);
            assert!(counted >= least, "{prefix} {size}: {counted} checks, at least {least} are due");
        }
    }
}
