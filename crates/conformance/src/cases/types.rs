//! A key has one type of state at a time: a step of another type is a `wrong_type` error and changes nothing.

use keystead_core::{Code, StoreExt, Ttl};

use super::{Case, Need};
use crate::failure::{Checked, expect_eq, expect_rejected};
use crate::scene::Scene;
use crate::steps::{delete, increment, put};

pub(super) const CASES: &[Case] = &[
    Case { name: "another_type_is_rejected", needs: &[], run: |s| Box::pin(rejected(s)) },
    Case { name: "refusal_moves_no_expiry", needs: &[Need::InjectedClock], run: |s| Box::pin(no_expiry(s)) },
    Case { name: "a_freed_key_takes_any_type", needs: &[], run: |s| Box::pin(freed(s)) },
    Case {
        name: "an_expired_key_takes_any_type",
        needs: &[Need::InjectedClock],
        run: |s| Box::pin(expired(s)),
    },
];

async fn rejected(scene: &Scene) -> Checked {
    let key = scene.key("key")?;
    scene.put(&key, "text".to_owned(), Ttl::Never).await?;
    let store = scene.store();
    expect_rejected("a count", store.apply(&key, &increment(Ttl::Never)).await, Code::WrongType)?;
    expect_rejected("a put", store.apply(&key, &put(vec![1u64], Ttl::Never)).await, Code::WrongType)?;
    expect_rejected("a delete", store.apply(&key, &delete::<u64>()).await, Code::WrongType)?;
    expect_rejected("a look", store.get::<u64>(&key).await, Code::WrongType)?;
    expect_eq("the state", scene.get::<String>(&key).await?.as_deref(), Some("text"))
}

async fn no_expiry(scene: &Scene) -> Checked {
    let key = scene.key("key")?;
    scene.put(&key, "text".to_owned(), Ttl::Ms(100)).await?;
    scene.clock().advance_ms(50);
    for ttl in [Ttl::Never, Ttl::Ms(1000), Ttl::Ms(0)] {
        let result = scene.store().apply(&key, &increment(ttl)).await;
        expect_rejected("a count", result, Code::WrongType)?;
    }
    scene.clock().advance_ms(49);
    expect_eq("before its expiry", scene.get::<String>(&key).await?.as_deref(), Some("text"))?;
    scene.clock().advance_ms(1);
    expect_eq("at its expiry", scene.get::<String>(&key).await?, None)
}

async fn freed(scene: &Scene) -> Checked {
    let key = scene.key("key")?;
    scene.put(&key, "text".to_owned(), Ttl::Never).await?;
    expect_eq("reset", scene.reset(&key).await?, true)?;
    expect_eq("a count after reset", scene.apply(&key, &increment(Ttl::Never)).await?, 1)?;
    expect_eq("deleted", scene.apply(&key, &delete::<u64>()).await?, Some(1))?;
    scene.put(&key, vec![1u64, 2], Ttl::Never).await?;
    expect_eq("a list after a delete", scene.get::<Vec<u64>>(&key).await?, Some(vec![1, 2]))
}

async fn expired(scene: &Scene) -> Checked {
    let key = scene.key("key")?;
    scene.put(&key, "text".to_owned(), Ttl::Ms(10)).await?;
    scene.clock().advance_ms(10);
    scene.expect_count("a read of another type", &key, None).await?;
    scene.put(&key, "text".to_owned(), Ttl::Ms(10)).await?;
    scene.clock().advance_ms(10);
    expect_eq("a count", scene.apply(&key, &increment(Ttl::Never)).await?, 1)?;
    scene.expect_count("the state", &key, Some(1)).await
}
