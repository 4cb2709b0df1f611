//! `memory:` stores everything in this process, and nothing after it ends. Accesses nothing else.

use std::sync::Arc;

use keystead_core::{Clock, MemoryOptions, MemoryStore, Result, Store};

use super::Scheme;
use super::url::Url;

pub(super) const SCHEME: Scheme = Scheme {
    name: "memory",
    form: "memory:?max-keys=N",
    about: "this process only, the fastest; gone when it ends",
    open,
};

fn open(url: &Url<'_>, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
    if !url.path.is_empty() {
        return Err(url.bad("a store in memory has no path"));
    }
    let mut options = MemoryOptions::default().clock(clock);
    if let Some(max_keys) = url.take("max-keys")? {
        options = options.max_keys(max_keys);
    }
    url.finish()?;
    Ok(Arc::new(MemoryStore::open(options)?))
}
