//! `sqlite:DIR` is an embedded database. Accesses that directory, through the engine.

use std::sync::Arc;

use keystead_core::{Clock, Result, Store};
use keystead_engine::{Engine, Options};

use super::Scheme;
use super::url::Url;

pub(super) const SCHEME: Scheme = Scheme {
    name: "sqlite",
    form: "sqlite:DIR?durability=fsync&shards=1",
    about: "an embedded database in a directory, durable; one process at a time",
    open,
};

fn open(url: &Url<'_>, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
    // `sqlite://data` and `sqlite:///var/data` are also common.
    let dir = url.path.strip_prefix("//").unwrap_or(url.path);
    if dir.is_empty() {
        return Err(url.bad("the directory is missing"));
    }
    let mut options = Options::new(dir).clock(clock);
    if let Some(durability) = url.take("durability")? {
        options = options.durability(durability);
    }
    if let Some(shards) = url.take("shards")? {
        options = options.shards(shards);
    }
    url.finish()?;
    Ok(Arc::new(Engine::open(&options)?))
}
