//! What exceeds a bound that the store declares is rejected, and nothing is stored.

use keystead_core::bounds::KEY_BYTES_MAX;
use keystead_core::{Code, Key, StoreExt, Ttl};

use super::Case;
use crate::failure::{Checked, expect_rejected};
use crate::scene::Scene;
use crate::steps::increment;

pub(super) const CASES: &[Case] =
    &[Case { name: "a_longer_key_is_rejected", needs: &[], run: |s| Box::pin(longer(s)) }];

/// A store with a smaller bound than the core must enforce it itself; the core's bound is enforced when the key is built.
async fn longer(scene: &Scene) -> Checked {
    let max = scene.store().capabilities().key_bytes_max;
    if max >= KEY_BYTES_MAX {
        return expect_rejected("a key", Key::new(vec![b'x'; KEY_BYTES_MAX + 1]), Code::TooLarge);
    }
    for len in [max + 1, KEY_BYTES_MAX] {
        let key = scene.key_of_len(len, b"end")?;
        let store = scene.store();
        expect_rejected("an apply", store.apply(&key, &increment(Ttl::Never)).await, Code::TooLarge)?;
        expect_rejected("a read", store.get::<u64>(&key).await, Code::TooLarge)?;
        expect_rejected("a reset", store.reset(&key).await, Code::TooLarge)?;
    }
    Ok(())
}
