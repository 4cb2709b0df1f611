//! A scene: one test inside a child process whose disk the test controls.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use keystead_core::{Millis, Result, Stopwatch, Version};
use keystead_engine::{Durability, Engine, Options, check};
use keystead_model::Bytes;
use keystead_model::keyspace::Expire;
use libtest_mimic::Failed;

use crate::shim::Control;
use crate::{child, shim};

/// A test that runs in a child.
pub(crate) type Act = fn(&Scene);

/// The context of a scene.
pub(crate) struct Scene {
    pub(crate) dir: PathBuf,
    pub(crate) disk: Control,
    runtime: tokio::runtime::Runtime,
}

/// Runs a scene in a child and returns its result.
pub(crate) fn play(name: &str) -> Result<(), Failed> {
    let home = child::quick_dir();
    let mut environment = shim::environment(home.path());
    let control = home.path().canonicalize()?.join("control");
    environment.push(("SHIM_CONTROL", control.display().to_string()));
    let mut command = child::command("scene", &[name.into(), home.path().display().to_string()]);
    let status = command.envs(environment).stdin(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(format!("the scene failed: {status}").into()) }
}

impl Scene {
    pub(crate) fn new(home: &Path) -> Self {
        let home = home.canonicalize().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        Scene { dir: home.join("data"), disk: Control::new(&home.join("control")), runtime }
    }

    pub(crate) fn options(&self, level: Durability) -> Options {
        Options::new(&self.dir).durability(level).segment_bytes(16 * 1024).journal_bytes_max(256 * 1024)
    }

    pub(crate) fn open(&self, level: Durability) -> Engine {
        Engine::open(&self.options(level)).unwrap()
    }

    pub(crate) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        let deadline = std::time::Duration::from_secs(60);
        self.runtime.block_on(async { tokio::time::timeout(deadline, future).await.expect("it hangs") })
    }

    pub(crate) fn set(&self, engine: &Engine, key: &str, value: &str) -> Result<Version> {
        self.run(set(engine, key, value))
    }

    pub(crate) fn get(&self, engine: &Engine, key: &str) -> Result<Option<String>> {
        self.run(get(engine, key))
    }

    /// Tries until it is true.
    pub(crate) fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let watch = Stopwatch::start();
        while !is_so() {
            assert!(watch.elapsed().as_secs() < 60, "not {what}");
            self.pause_ms(1);
        }
    }

    /// Gives the engine's threads time to run.
    pub(crate) fn pause_ms(&self, ms: u64) {
        self.run(async { tokio::time::sleep(std::time::Duration::from_millis(ms)).await });
    }

    /// The closed database is consistent.
    pub(crate) fn is_sound(&self) {
        let report = check(&self.dir).unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
    }
}

pub(crate) async fn set(engine: &Engine, key: &str, value: &str) -> Result<Version> {
    let (name, value) = (key.to_string(), Bytes::from(value.as_bytes()));
    let set = move |keyspace: &mut keystead_model::keyspace::Keyspace, now| {
        keyspace.set_str(name.as_bytes(), value, Expire::At(Millis::NEVER), now)
    };
    engine.write(key.as_bytes(), set).await
}

pub(crate) async fn get(engine: &Engine, key: &str) -> Result<Option<String>> {
    let name = key.to_string();
    let get = move |keyspace: &mut keystead_model::keyspace::Keyspace, now| {
        let value = keyspace.str(name.as_bytes(), now)?;
        Ok(value.map(|value| String::from_utf8_lossy(value).into_owned()))
    };
    engine.read(key.as_bytes(), get).await
}

pub(crate) async fn delete(engine: &Engine, key: &str) -> Result<bool> {
    let name = key.to_string();
    engine.write(key.as_bytes(), move |keyspace, now| keyspace.delete(name.as_bytes(), now)).await
}
