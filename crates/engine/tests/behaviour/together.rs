//! Several steps on several keys as one job.

use keystead_core::{
    Applies, Change, Code, Error, Key, Result, Revision, ShardId, Step, Store, StoreExt, Ttl, step_fn,
};
use keystead_engine::{Engine, Options};

use crate::common::{DURABLE, copy_dir, options};

fn add(n: u64) -> impl Step<State = u64, Reply = u64> {
    step_fn(move |state: Option<&u64>, _| {
        let sum = state.copied().unwrap_or(0) + n;
        Change::Put(sum, Ttl::Never, sum)
    })
}

fn keys(names: [&str; 2]) -> Vec<Key> {
    names.iter().map(|name| Key::new(name).unwrap()).collect()
}

#[tokio::test]
async fn all_steps_are_applied_or_none() {
    let engine = Engine::open(&Options::in_memory()).unwrap();
    let both = keys(["a", "b"]);
    let store = engine.together().unwrap();
    let names = both.clone();
    let add_to_both = move |held: &mut dyn Applies| {
        names.iter().map(|key| held.apply(key, &add(2))).collect::<Result<Vec<_>>>()
    };
    assert_eq!(store.apply_together(&both, add_to_both).await.unwrap(), [2, 2]);

    let names = both.clone();
    let fails = move |held: &mut dyn Applies| -> Result<()> {
        held.apply(&names[0], &add(5))?;
        let stranger = held.apply(&Key::new("c").unwrap(), &add(1)).unwrap_err();
        assert_eq!(stranger.code(), Code::Internal);
        Err(Error::new(Code::Conflict, "on purpose"))
    };
    assert_eq!(store.apply_together(&both, fails).await.unwrap_err().code(), Code::Conflict);
    assert_eq!(
        engine.get::<u64>(&both[0]).await.unwrap(),
        Some(2),
        "what it changed before it failed is undone"
    );
    assert_eq!(engine.get::<u64>(&Key::new("c").unwrap()).await.unwrap(), None);
    assert_eq!(store.apply_together(&[], |_| Ok(())).await.unwrap_err().code(), Code::BadRequest);
}

fn grow() -> impl Step<State = Vec<u64>, Reply = usize> {
    step_fn(|state: Option<&Vec<u64>>, _| {
        let mut state = state.cloned().unwrap_or_default();
        state.push(state.len() as u64);
        let len = state.len();
        Change::Put(state, Ttl::Never, len)
    })
}

#[tokio::test]
async fn many_steps_on_a_key_are_one_state_in_the_journal() {
    const STEPS: usize = 10_000;
    for level in DURABLE {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::open(&options(dir.path()).durability(level)).unwrap();
        let both = keys(["a", "b"]);
        let names = both.clone();
        let job = move |held: &mut dyn Applies| -> Result<usize> {
            (0..STEPS).try_fold(0, |_, n| held.apply(&names[n % 2], &grow()))
        };
        let mut feed = engine.subscribe(ShardId(0), Revision::ZERO).unwrap();
        let store = engine.together().unwrap();
        assert_eq!(store.apply_together(&both, job).await.unwrap(), STEPS / 2);
        let changes = feed.next().await.unwrap();
        let recorded: Vec<_> = changes.iter().map(|change| (&change.key[..], change.version.0)).collect();
        assert_eq!(recorded, [(&b"a"[..], STEPS as u64 / 2), (b"b", STEPS as u64 / 2)]);
        drop(feed);
        let crashed = tempfile::tempdir().unwrap();
        copy_dir(dir.path(), crashed.path());
        engine.close().await.unwrap();
        for dir in [dir.path(), crashed.path()] {
            let engine = Engine::open(&options(dir)).unwrap();
            for key in &both {
                let state = engine.get::<Vec<u64>>(key).await.unwrap().unwrap();
                assert!(state.into_iter().eq(0..STEPS as u64 / 2));
            }
            engine.close().await.unwrap();
        }
    }
}

#[tokio::test]
async fn keys_on_different_shards_are_rejected_unless_they_share_a_tag() {
    let engine = Engine::open(&Options::in_memory().shards(16)).unwrap();
    let store = engine.together().unwrap();
    let apart = keys(["a", "b"]);
    assert_ne!(engine.shard_of(b"a"), engine.shard_of(b"b"));
    let nothing = |_: &mut dyn Applies| Ok(());
    assert_eq!(store.apply_together(&apart, nothing).await.unwrap_err().code(), Code::Unsupported);
    store.apply_together(&keys(["{user}:a", "{user}:b"]), nothing).await.unwrap();
}
