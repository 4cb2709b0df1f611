//! A state is read back as it was put, to the last bit, even through text.

use std::collections::BTreeMap;
use std::fmt::Debug;

use keystead_core::{Code, State, StoreExt, Ttl};
use serde::{Deserialize, Serialize};

use super::Case;
use crate::failure::{Checked, Failure, expect, expect_eq};
use crate::rng::Rng;
use crate::scene::Scene;
use crate::steps::{put, rewrite};

pub(super) const CASES: &[Case] = &[
    Case { name: "doubles_survive_bit_for_bit", needs: &[], run: |s| Box::pin(doubles(s)) },
    Case { name: "integers_survive_at_their_ends", needs: &[], run: |s| Box::pin(integers(s)) },
    Case { name: "text_of_every_kind_survives", needs: &[], run: |s| Box::pin(text(s)) },
    Case { name: "null_is_a_state", needs: &[], run: |s| Box::pin(null(s)) },
    Case { name: "nested_states_survive", needs: &[], run: |s| Box::pin(nested(s)) },
    Case { name: "the_largest_state_is_taken", needs: &[], run: |s| Box::pin(largest(s)) },
    Case { name: "too_large_a_state_harms_nothing", needs: &[], run: |s| Box::pin(too_large(s)) },
];

async fn doubles(scene: &Scene) -> Checked {
    let mut doubles = vec![
        0.0,
        -0.0,
        0.1,
        0.1 + 0.2,
        1.0 / 3.0,
        f64::MIN_POSITIVE,
        f64::from_bits(1),
        f64::MIN_POSITIVE / 3.0,
        f64::EPSILON,
        1.0 + f64::EPSILON,
        2f64.powi(53) - 1.0,
        2f64.powi(53) + 2.0,
        9_007_199_254_740_993.0,
        1e15,
        1e16,
        1e17 + 16.0,
        1e21,
        1e-7,
        1e308,
        f64::MAX,
        f64::MIN,
        1_700_000_000_123.456_8,
    ];
    let mut rng = Rng::new(0x00d0_0b1e);
    doubles.extend((0..500).map(|_| rng.finite_f64()));
    let key = scene.key("many")?;
    scene.put(&key, doubles.clone(), Ttl::Never).await?;
    for round in 1..=3 {
        let got = scene.get::<Vec<f64>>(&key).await?.unwrap_or_default();
        for (got, want) in got.iter().zip(&doubles) {
            let (got_bits, want_bits) = (got.to_bits(), want.to_bits());
            let what = format!("{want:e} ({want_bits:#x}) in round {round}, read back as {got:e}");
            expect_eq(what, got_bits, want_bits)?;
        }
        expect_eq("how many were read back", got.len(), doubles.len())?;
        expect("it was there to rewrite", scene.apply(&key, &rewrite::<Vec<f64>>()).await?)?;
    }
    for (i, want) in doubles.iter().take(30).enumerate() {
        let key = scene.key(format!("alone {i}"))?;
        scene.put(&key, *want, Ttl::Never).await?;
        let got = scene.get::<f64>(&key).await?.map(f64::to_bits);
        expect_eq(format_args!("{want:e} alone"), got, Some(want.to_bits()))?;
    }
    Ok(())
}

async fn integers(scene: &Scene) -> Checked {
    let unsigned = [0, 1, u64::from(u32::MAX), (1 << 53) - 1, (1 << 53) + 1, i64::MAX as u64 + 1, u64::MAX];
    for value in unsigned {
        round_trip(scene, &value).await?;
    }
    for value in [-1, i64::from(i32::MIN), -(1 << 53) - 1, i64::MIN, i64::MAX] {
        round_trip(scene, &value).await?;
    }
    Ok(())
}

async fn text(scene: &Scene) -> Checked {
    let every_control: String = (0u8..128).map(char::from).collect();
    let edges = "\u{80}\u{7ff}\u{800}\u{d7ff}\u{e000}\u{fffd}\u{ffff}\u{10000}\u{10ffff}";
    for value in ["", " ", "\0", "null", "\"", "\\", "\\u0000", "%s$1;--'", "\u{2028}", edges, &every_control]
    {
        round_trip(scene, &value.to_owned()).await?;
    }
    Ok(())
}

/// A state whose text is `null` exists; a store must not treat it as absent.
async fn null(scene: &Scene) -> Checked {
    let key = scene.key("key")?;
    expect_eq("before", scene.get::<Option<u64>>(&key).await?, None)?;
    scene.put(&key, None::<u64>, Ttl::Never).await?;
    expect_eq("a state that is null", scene.get::<Option<u64>>(&key).await?, Some(None))?;
    expect_eq("reset of it", scene.reset(&key).await?, true)
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Shape {
    Empty,
    Pair(i64, f64),
    Tree { name: String, under: Vec<Shape>, by_name: BTreeMap<String, Option<bool>> },
}

async fn nested(scene: &Scene) -> Checked {
    let by_name =
        BTreeMap::from([(String::new(), None), ("\"".to_owned(), Some(true)), ("é".to_owned(), Some(false))]);
    let leaf = Shape::Tree { name: "leaf".to_owned(), under: vec![], by_name };
    let under = vec![Shape::Empty, Shape::Pair(-7, 0.1), leaf];
    let tree = Shape::Tree { name: "root".to_owned(), under, by_name: BTreeMap::new() };
    round_trip(scene, &tree).await?;
    round_trip(scene, &Vec::<Shape>::new()).await?;
    round_trip(scene, &(0.1 + 0.2, u64::MAX)).await?;
    round_trip(scene, &(u64::MAX, 0u64)).await?;
    round_trip(scene, &()).await
}

async fn round_trip<T: State + Sync + PartialEq + Debug>(scene: &Scene, value: &T) -> Checked {
    let key = scene.key("round trip")?;
    scene.put(&key, value.clone(), Ttl::Never).await?;
    expect("it was there to rewrite", scene.apply(&key, &rewrite::<T>()).await?)?;
    expect_eq("what was read back", scene.get::<T>(&key).await?.as_ref(), Some(value))?;
    expect_eq("reset", scene.reset(&key).await?, true)
}

/// A state whose text has exactly `len` bytes: the quotes are two of them.
fn text_of_len(len: usize) -> String {
    "x".repeat(len - 2)
}

async fn largest(scene: &Scene) -> Checked {
    let max = scene.store().capabilities().state_bytes_max;
    for len in [max / 2, max - 1, max] {
        let key = scene.key(format!("{len} bytes"))?;
        scene.put(&key, text_of_len(len), Ttl::Never).await?;
        let got = scene.get::<String>(&key).await?;
        expect(format_args!("{len} bytes were read back"), got == Some(text_of_len(len)))?;
    }
    Ok(())
}

/// A store of native values has no text to measure, so it may accept it; others must return an error.
async fn too_large(scene: &Scene) -> Checked {
    let key = scene.key("key")?;
    scene.put(&key, "before".to_owned(), Ttl::Never).await?;
    let large = text_of_len(scene.store().capabilities().state_bytes_max + 1);
    let want = match scene.store().apply(&key, &put(large.clone(), Ttl::Never)).await {
        Ok(()) => large,
        Err(error) if error.code() == Code::TooLarge => "before".to_owned(),
        Err(error) => return Err(Failure::from(error)),
    };
    let got = scene.get::<String>(&key).await?;
    expect("the state agrees with the result", got == Some(want))
}
