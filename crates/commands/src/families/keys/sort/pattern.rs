//! The patterns of SORT's BY and GET: `weight_*`, `object_*->field`, `#`. Resolving one touches the keyspace.

use keystead_model::Bytes;
use keystead_model::value::Value;

use crate::Ctx;
use crate::bounds::SORT_TEXT_BYTES_FREE;
use crate::errors::Fail;
use crate::meter;

/// Where the value for an element is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern<'a> {
    /// The element itself.
    Itself,
    /// Without a star nothing is found.
    Nothing,
    /// In the key that has the element in place of the star, or in a field of the hash there.
    Key { prefix: &'a [u8], postfix: &'a [u8], field: Option<&'a [u8]> },
}

impl<'a> Pattern<'a> {
    pub(super) fn parse(text: &'a [u8]) -> Self {
        if text == b"#" {
            return Pattern::Itself;
        }
        let Some(star) = text.iter().position(|byte| *byte == b'*') else {
            return Pattern::Nothing;
        };
        let (prefix, rest) = (&text[..star], &text[star + 1..]);
        let arrow = rest.windows(2).position(|pair| pair == b"->");
        match arrow.filter(|arrow| arrow + 2 < rest.len()) {
            Some(arrow) => Pattern::Key { prefix, postfix: &rest[..arrow], field: Some(&rest[arrow + 2..]) },
            None => Pattern::Key { prefix, postfix: rest, field: None },
        }
    }

    /// The value for an element.
    pub(super) fn resolve(&self, ctx: &mut Ctx<'_>, element: &Bytes) -> Result<Option<Bytes>, Fail> {
        let Pattern::Key { prefix, postfix, field } = self else {
            return Ok((*self == Pattern::Itself).then(|| element.clone()));
        };
        // Many patterns times long elements: building the names alone is work.
        let len = prefix.len() + element.len() + postfix.len();
        if !meter::steps(len.saturating_sub(SORT_TEXT_BYTES_FREE)) {
            return Ok(None);
        }
        let key = [prefix, element.as_slice(), postfix].concat();
        Ok(match (ctx.keys.value(&key, ctx.now)?, field) {
            (Some(Value::Str(value)), None) => Some(value.to_bytes()),
            (Some(Value::Hash(hash)), Some(field)) => hash.get(field).map(Bytes::from),
            _ => None,
        })
    }
}

/// The hash tag that puts all keys of a pattern on one shard, if there is one before the star.
pub(super) fn tag(prefix: &[u8]) -> Option<&[u8]> {
    let open = prefix.iter().position(|byte| *byte == b'{')?;
    let len = prefix[open + 1..].iter().position(|byte| *byte == b'}').filter(|len| *len > 0)?;
    Some(&prefix[open..open + len + 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_read_as_redis_does() {
        let key = |prefix: &'static str, postfix: &'static str, field: Option<&'static str>| Pattern::Key {
            prefix: prefix.as_bytes(),
            postfix: postfix.as_bytes(),
            field: field.map(str::as_bytes),
        };
        for (text, pattern) in [
            ("#", Pattern::Itself),
            ("nosort", Pattern::Nothing),
            ("", Pattern::Nothing),
            ("w_*", key("w_", "", None)),
            ("a*b*c", key("a", "b*c", None)),
            ("o_*->f", key("o_", "", Some("f"))),
            ("o_*x->f->g", key("o_", "x", Some("f->g"))),
            ("o_*->", key("o_", "->", None)),
            ("a->b*", key("a->b", "", None)),
        ] {
            assert_eq!(Pattern::parse(text.as_bytes()), pattern, "{text}");
        }
        assert_eq!(tag(b"w{t}_"), Some(&b"{t}"[..]));
        assert_eq!((tag(b"w{}_"), tag(b"w{t"), tag(b"w")), (None, None, None));
    }
}
