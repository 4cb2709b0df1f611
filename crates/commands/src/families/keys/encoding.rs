//! The encoding that Redis would report for a value of this size, by its default thresholds. It touches nothing.
//!
//! Clients and test suites read it; here it reflects the size of a value, not how it is stored.

use keystead_model::value::{Hash, List, Set, Value, ZSet};

use crate::number;

/// Maximum length of a field, value or member in a listpack.
const LISTPACK_ELEMENT_BYTES_MAX: usize = 64;
/// Maximum fields of a hash in a listpack.
const HASH_LISTPACK_LEN_MAX: usize = 512;
/// Maximum members of a set, or of a sorted set, in a listpack.
const SET_LISTPACK_LEN_MAX: usize = 128;
/// Maximum members of an intset.
const INTSET_LEN_MAX: usize = 512;
/// Maximum bytes of a list in one listpack.
const LIST_LISTPACK_BYTES_MAX: usize = 8192;
/// Maximum length of a string that Redis embeds in its object.
const EMBSTR_BYTES_MAX: usize = 44;

/// The name of the encoding.
pub(super) fn name(value: &Value) -> &'static str {
    match value {
        Value::Str(bytes) if number::parse_int(bytes).is_some() => "int",
        Value::Str(bytes) if bytes.len() <= EMBSTR_BYTES_MAX => "embstr",
        Value::Hash(hash) => of_hash(hash),
        Value::List(list) => of_list(list),
        Value::Set(set) => of_set(set),
        Value::ZSet(zset) => of_zset(zset),
        Value::Stream(_) => "stream",
        Value::Str(_) | Value::Json(_) | Value::State(_) | Value::Evicted(_) => "raw",
    }
}

fn fits(element: &[u8]) -> bool {
    element.len() <= LISTPACK_ELEMENT_BYTES_MAX
}

fn of_hash(hash: &Hash) -> &'static str {
    let small = hash.len() <= HASH_LISTPACK_LEN_MAX
        && (hash.is_packed() || hash.iter().all(|(field, value)| fits(field) && fits(value)));
    match small {
        true if hash.expiries().next().is_some() => "listpackex",
        true => "listpack",
        false => "hashtable",
    }
}

fn of_set(set: &Set) -> &'static str {
    if set.len() <= INTSET_LEN_MAX && set.iter().all(|member| number::parse_int(member).is_some()) {
        return "intset";
    }
    let small = set.len() <= SET_LISTPACK_LEN_MAX && (set.is_packed() || set.iter().all(fits));
    if small { "listpack" } else { "hashtable" }
}

fn of_zset(zset: &ZSet) -> &'static str {
    let small = zset.len() <= SET_LISTPACK_LEN_MAX
        && (zset.is_packed() || zset.iter().all(|(member, _)| fits(member)));
    if small { "listpack" } else { "skiplist" }
}

fn of_list(list: &List) -> &'static str {
    // Each element uses at least two bytes, so the loop is short. Redis checks before it adds one, by its bare length.
    let mut bytes = LISTPACK_FRAME_BYTES;
    let fits = list.iter().all(|(_, element)| {
        let fits = bytes + element.len() <= LIST_LISTPACK_BYTES_MAX;
        bytes += listpack_bytes(element);
        fits
    });
    if fits { "listpack" } else { "quicklist" }
}

/// A listpack's header and end mark.
const LISTPACK_FRAME_BYTES: usize = 7;

/// Bytes of an element in a listpack: its encoding, and its length again for backward traversal.
fn listpack_bytes(element: &[u8]) -> usize {
    let form = match number::parse_int(element) {
        Some(0..=127) => 1,
        Some(-4096..=4095) => 2,
        Some(-32_768..=32_767) => 3,
        Some(-8_388_608..=8_388_607) => 4,
        Some(-2_147_483_648..=2_147_483_647) => 5,
        Some(_) => 9,
        None if element.len() < 64 => 1 + element.len(),
        None if element.len() < 4096 => 2 + element.len(),
        None => 5 + element.len(),
    };
    form + match form {
        0..=127 => 1,
        128..=16_382 => 2,
        16_383..=2_097_150 => 3,
        2_097_151..=268_435_454 => 4,
        _ => 5,
    }
}

#[cfg(test)]
mod tests {
    use keystead_model::Bytes;

    use super::*;

    fn bytes(text: impl AsRef<[u8]>) -> Bytes {
        Bytes::from(text.as_ref())
    }

    #[test]
    fn the_encoding_of_strings_follows_from_their_content() {
        for (text, form) in [
            ("1".to_owned(), "int"),
            ("-9223372036854775808".to_owned(), "int"),
            ("9223372036854775808".to_owned(), "embstr"),
            ("1.0".to_owned(), "embstr"),
            (String::new(), "embstr"),
            ("x".repeat(44), "embstr"),
            ("x".repeat(45), "raw"),
        ] {
            assert_eq!(name(&Value::Str(bytes(&text).into())), form, "{text}");
        }
    }

    #[test]
    fn the_encoding_of_collections_follows_from_their_size() {
        let (mut hash, mut set, mut zset) = (Hash::new(), Set::new(), ZSet::new());
        let names = |hash: &Hash, set: &Set, zset: &ZSet| (of_hash(hash), of_set(set), of_zset(zset));
        for n in 0..512 {
            hash.insert(&bytes(n.to_string()), &bytes("v"));
            set.insert(&bytes(n.to_string()));
            if n < 128 {
                zset.insert(&bytes(n.to_string()), 1.0);
            }
        }
        assert_eq!(names(&hash, &set, &zset), ("listpack", "intset", "listpack"));
        hash.set_expires_at(b"1", keystead_core::Millis(5));
        assert_eq!(of_hash(&hash), "listpackex");
        hash.insert(&bytes("one more"), &bytes("v"));
        set.insert(&bytes("513"));
        zset.insert(&bytes("one more"), 1.0);
        assert_eq!(names(&hash, &set, &zset), ("hashtable", "hashtable", "skiplist"));

        let (mut hash, mut set, mut zset) = (Hash::new(), Set::new(), ZSet::new());
        for long in [bytes("x".repeat(64)), bytes("x".repeat(65))] {
            let small = long.len() == 64;
            hash.insert(&bytes("f"), &long);
            set.insert(&long);
            zset.insert(&long, 1.0);
            let expected = if small { "listpack" } else { "hashtable" };
            assert_eq!(of_hash(&hash), expected);
            assert_eq!(of_set(&set), expected);
            assert_eq!(of_zset(&zset), if small { "listpack" } else { "skiplist" });
        }
    }

    #[test]
    fn the_encoding_of_a_list_follows_from_its_bytes() {
        let mut list = List::new();
        for _ in 0..4093 {
            list.push_back(&bytes("1"));
        }
        assert_eq!(of_list(&list), "listpack");
        list.push_back(&bytes("1"));
        assert_eq!(of_list(&list), "quicklist");
    }
}
