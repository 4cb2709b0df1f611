//! Every store fulfils the contract, on the real server: one line per store, one test per case.

mod held;
mod memory;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use keystead_stores::bounds::DEADLINE_MS;
use keystead_stores::cas::CasStore;
use keystead_testkit::{NotOpened, Setup, conformance};

use memory::{MemoryBackend, Values};

fn main() -> ExitCode {
    let on_servers = support::ON_SERVERS.iter().fold(conformance(), |suite, on_server| {
        suite.store(on_server.label, |setup| on_server.open(Arc::new(setup.clock())))
    });
    on_servers
        .store("cas, in memory", |setup| cas(setup, |backend| backend))
        .store("cas, without the current value", |setup| {
            cas(setup, |backend| MemoryBackend { returns_current: false, ..backend })
        })
        .store("cas, small bounds", |setup| {
            cas(setup, |backend| MemoryBackend { key_bytes_max: 2048, state_bytes_max: 65_000, ..backend })
        })
        .run()
}

/// The values of a case, by its prefix: all handles of one case share them.
static VALUES: LazyLock<Mutex<BTreeMap<String, Values>>> = LazyLock::new(Mutex::default);

async fn cas(
    setup: Setup,
    change: impl FnOnce(MemoryBackend) -> MemoryBackend,
) -> Result<CasStore<MemoryBackend>, NotOpened> {
    let mut all = VALUES.lock().unwrap_or_else(PoisonError::into_inner);
    let values = all.entry(setup.prefix().to_owned()).or_default().clone();
    Ok(CasStore::new(change(MemoryBackend::new(values)), Arc::new(setup.clock()), DEADLINE_MS)?)
}
