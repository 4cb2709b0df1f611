//! A key is a byte string: all of its bytes are significant, and nothing else is.

use std::collections::BTreeSet;

use keystead_core::{Key, Ttl};

use super::Case;
use crate::failure::{Checked, expect_eq};
use crate::scene::Scene;

pub(super) const CASES: &[Case] = &[
    Case { name: "every_byte_counts", needs: &[], run: |s| Box::pin(every_byte(s)) },
    Case { name: "look_alikes_are_distinct", needs: &[], run: |s| Box::pin(look_alikes(s)) },
    Case { name: "prefixes_of_each_other_are_distinct", needs: &[], run: |s| Box::pin(prefixes(s)) },
    Case { name: "the_longest_key_is_taken", needs: &[], run: |s| Box::pin(longest(s)) },
    Case { name: "long_keys_differ_in_their_last_byte", needs: &[], run: |s| Box::pin(last_byte(s)) },
];

async fn every_byte(scene: &Scene) -> Checked {
    let mut names: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    names.push((0..=255).collect());
    names.push((0..=255).rev().collect());
    distinct(scene, &names).await
}

async fn look_alikes(scene: &Scene) -> Checked {
    let names: [&[u8]; 20] = [
        b"a",
        b"A",
        b"a ",
        b" a",
        b"a\0",
        b"a\0b",
        b"a\n",
        b"a\r\n",
        b"%61",
        b"a%00",
        b"a\\0",
        b"'a'",
        b"\"a\"",
        b"*",
        b"{a}",
        "\u{e9}".as_bytes(),
        "e\u{301}".as_bytes(),
        b"\xc3",
        b"\xff\xfe",
        "\u{fffd}".as_bytes(),
    ];
    distinct(scene, &names).await
}

async fn prefixes(scene: &Scene) -> Checked {
    distinct(scene, &["k", "k:", "k:1", "k:1:", "k:10", "k:1:0", "k1", "kk", "k:1\0", "k:1\0\0"]).await
}

async fn longest(scene: &Scene) -> Checked {
    let max = scene.store().capabilities().key_bytes_max;
    let key = scene.key_of_len(max, b"end")?;
    expect_eq("length", key.as_bytes().len(), max)?;
    distinct_keys(scene, &[key, scene.key_of_len(max - 1, b"end")?]).await
}

/// Lengths around those at which stores are known to truncate, hash or index.
async fn last_byte(scene: &Scene) -> Checked {
    let mut keys = Vec::new();
    let max = scene.store().capabilities().key_bytes_max;
    let lengths = [64, 65, 128, 255, 256, 512, 1024, 2048, 2049, 2713, 8192];
    for len in lengths.into_iter().filter(|len| *len < max).chain([max]) {
        keys.push(scene.key_of_len(len, b"0")?);
        keys.push(scene.key_of_len(len, b"1")?);
    }
    distinct_keys(scene, &keys).await
}

async fn distinct(scene: &Scene, names: &[impl AsRef<[u8]>]) -> Checked {
    let keys: Vec<Key> = names.iter().map(|name| scene.key(name)).collect::<Checked<_>>()?;
    distinct_keys(scene, &keys).await
}

/// Puts a different state under each key, then removes them one by one while the others must stay.
async fn distinct_keys(scene: &Scene, keys: &[Key]) -> Checked {
    expect_eq("distinct keys", keys.iter().collect::<BTreeSet<_>>().len(), keys.len())?;
    for (i, key) in keys.iter().enumerate() {
        let before = scene.get::<u64>(key).await?;
        expect_eq(format_args!("{} before it was put", short(key)), before, None)?;
        scene.put(key, i as u64, Ttl::Never).await?;
    }
    for (i, key) in keys.iter().enumerate() {
        let got = scene.get::<u64>(key).await?;
        expect_eq(format_args!("the state of {}", short(key)), got, Some(i as u64))?;
        let there = scene.reset(key).await?;
        expect_eq(format_args!("reset of {}", short(key)), there, true)?;
    }
    Ok(())
}

/// A key's end, which is where these keys differ.
fn short(key: &Key) -> String {
    let bytes = key.as_bytes();
    let from = bytes.len().saturating_sub(40);
    format!("the key of {} bytes that ends in \"{}\"", bytes.len(), bytes[from..].escape_ascii())
}
