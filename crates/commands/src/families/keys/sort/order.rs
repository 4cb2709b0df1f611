//! How SORT orders elements. Resolving a BY pattern touches the keyspace.

use std::cmp::Ordering;

use keystead_model::Bytes;

use super::pattern::Pattern;
use crate::bounds::SORT_TEXT_BYTES_FREE;
use crate::errors::Fail;
use crate::meter;
use crate::{Ctx, number};

const NO_NUMBER: &str = "ERR One or more scores can't be converted into double";

/// The sort key of an element.
pub(super) enum Weights {
    /// A number.
    Numbers(Vec<f64>),
    /// A text from another key, or `None`.
    Texts(Vec<Option<Bytes>>),
    /// The element itself, as text.
    Themselves,
}

impl Weights {
    pub(super) fn of(
        ctx: &mut Ctx<'_>,
        elements: &[Bytes],
        by: Option<&Pattern<'_>>,
        alpha: bool,
    ) -> Result<Weights, Fail> {
        let Some(by) = by else {
            if alpha {
                return Ok(Weights::Themselves);
            }
            return elements
                .iter()
                .map(|element| weight(element))
                .collect::<Result<_, _>>()
                .map(Weights::Numbers);
        };
        let mut texts = Vec::with_capacity(elements.len());
        for element in elements {
            let text = by.resolve(ctx, element)?;
            // One long text may be the sort key of many elements, and copied for each.
            let len = text.as_ref().map_or(0, Bytes::len);
            if !meter::steps(len.saturating_sub(SORT_TEXT_BYTES_FREE)) {
                return Ok(Weights::Themselves);
            }
            texts.push(text);
        }
        if alpha {
            return Ok(Weights::Texts(texts));
        }
        let numbers = texts.iter().map(|text| text.as_ref().map_or(Ok(0.0), |text| weight(text)));
        numbers.collect::<Result<_, _>>().map(Weights::Numbers)
    }
}

/// The number in a text, as C's `strtod` reads it: leading spaces are allowed, and an empty text is zero.
fn weight(text: &[u8]) -> Result<f64, Fail> {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Ok(0.0);
    }
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = text.iter().position(|byte| !is_space(byte)).unwrap_or(text.len());
    number::parse_float(&text[start..]).ok_or_else(|| Fail::Text(NO_NUMBER.into()))
}

/// The elements in order.
pub(super) fn sorted(elements: Vec<Bytes>, weights: Weights, descending: bool) -> Vec<Bytes> {
    let direct = |order: Ordering| if descending { order.reverse() } else { order };
    match weights {
        Weights::Themselves => {
            let mut elements = elements;
            elements.sort_by(|a, b| direct(a.cmp(b)));
            elements
        }
        Weights::Numbers(numbers) => {
            let mut pairs: Vec<(f64, Bytes)> = numbers.into_iter().zip(elements).collect();
            pairs.sort_by(|a, b| {
                direct(a.0.partial_cmp(&b.0).unwrap_or(Ordering::Equal).then_with(|| a.1.cmp(&b.1)))
            });
            pairs.into_iter().map(|(_, element)| element).collect()
        }
        Weights::Texts(texts) => {
            let mut pairs: Vec<(Option<Bytes>, Bytes)> = texts.into_iter().zip(elements).collect();
            // Absent sort keys come first, as None does.
            pairs.sort_by(|a, b| direct(a.0.cmp(&b.0)));
            pairs.into_iter().map(|(_, element)| element).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_strtod_does() {
        for (text, number) in [
            (&b""[..], Some(0.0)),
            (b"1.5", Some(1.5)),
            (b"  2", Some(2.0)),
            (b"0x1f", Some(31.0)),
            (b"-inf", Some(f64::NEG_INFINITY)),
            (b"1\0x", Some(1.0)),
            (b" ", None),
            (b"2 ", None),
            (b"1e400", None),
            (b"nan", None),
        ] {
            assert_eq!(weight(text).ok(), number, "{}", text.escape_ascii());
        }
    }
}
