//! Several steps on several keys as one job.

use keystead_core::{Applies, Change, Code, Error, Key, Result, Step, Store, StoreExt, Ttl, step_fn};
use keystead_engine::{Engine, Options};

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
async fn all_steps_count_or_none_does() {
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

#[tokio::test]
async fn keys_on_different_shards_are_refused_unless_a_tag_keeps_them_together() {
    let engine = Engine::open(&Options::in_memory().shards(16)).unwrap();
    let store = engine.together().unwrap();
    let apart = keys(["a", "b"]);
    assert_ne!(engine.shard_of(b"a"), engine.shard_of(b"b"));
    let nothing = |_: &mut dyn Applies| Ok(());
    assert_eq!(store.apply_together(&apart, nothing).await.unwrap_err().code(), Code::Unsupported);
    store.apply_together(&keys(["{user}:a", "{user}:b"]), nothing).await.unwrap();
}
