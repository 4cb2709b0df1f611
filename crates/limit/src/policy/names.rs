//! Duplicate names of a JSON object. JSON readers silently use the last one, which is rarely what was meant.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

/// The first duplicate name of the object in this text.
pub(super) fn twice(text: &str) -> Option<String> {
    let Names(names) = serde_json::from_str(text).ok()?;
    let place = (0..names.len()).find(|place| names[..*place].contains(&names[*place]))?;
    names.into_iter().nth(place)
}

struct Names(Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Names;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Names, A::Error> {
                let mut names = Vec::new();
                while let Some((name, IgnoredAny)) = object.next_entry()? {
                    names.push(name);
                }
                Ok(Names(names))
            }
        }

        from.deserialize_map(Object)
    }
}
