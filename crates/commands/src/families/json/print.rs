//! Values as text with custom indents, line ends and spaces, as JSON.GET takes them. It touches nothing.
//!
//! The output is bounded: many matches of a large value, or a long indent, return an error instead of exhausting memory.

use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

use crate::bounds::STRING_BYTES_MAX;
use crate::errors::{self, Fail};
use crate::meter;

/// The separators of a text. All empty: the compact form.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layout<'a> {
    /// Before each element, once per level.
    pub indent: &'a [u8],
    /// After each element and before the end of a container.
    pub newline: &'a [u8],
    /// After the colon of a member.
    pub space: &'a [u8],
}

/// The text of a value.
///
/// # Errors
/// `ERR string exceeds maximum allowed size` if it is longer than any string may be.
pub fn text(value: &impl Serialize, layout: Layout<'_>) -> Result<Vec<u8>, Fail> {
    let mut out = Capped(Vec::new());
    let laid = Laid { layout, level: 0, filled: false };
    value.serialize(&mut Serializer::with_formatter(&mut out, laid)).map_err(|_| errors::STRING_TOO_LONG)?;
    Ok(out.0)
}

/// The first capacity of a text.
const FIRST_BYTES: usize = 128;

struct Capped(Vec<u8>);

impl io::Write for Capped {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.0.len() + bytes.len();
        if len > STRING_BYTES_MAX || !meter::fits(len) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if len > self.0.capacity() {
            // Doubled as usual, but not beyond what may be filled.
            let capacity = len.max(self.0.capacity().saturating_mul(2).clamp(FIRST_BYTES, STRING_BYTES_MAX));
            self.0.reserve_exact(capacity - self.0.len());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Laid<'a> {
    layout: Layout<'a>,
    level: usize,
    /// Whether the container that just ended has elements.
    filled: bool,
}

impl Laid<'_> {
    fn begin<W: ?Sized + io::Write>(&mut self, out: &mut W, mark: &[u8]) -> io::Result<()> {
        self.level += 1;
        self.filled = false;
        out.write_all(mark)
    }

    fn end<W: ?Sized + io::Write>(&mut self, out: &mut W, mark: &[u8]) -> io::Result<()> {
        self.level -= 1;
        if self.filled {
            self.line(out)?;
        }
        out.write_all(mark)
    }

    fn next<W: ?Sized + io::Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if !first {
            out.write_all(b",")?;
        }
        self.line(out)
    }

    fn line<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(self.layout.newline)?;
        (0..self.level).try_for_each(|_| out.write_all(self.layout.indent))
    }
}

impl Formatter for Laid<'_> {
    fn begin_array<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.end(out, b"]")
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.next(out, first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, b"{")
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.end(out, b"}")
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.next(out, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b":")?;
        out.write_all(self.layout.space)
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::json::document::parse;

    #[test]
    fn a_layout_separates_the_parts() {
        let value = parse(br#"{"a":[1,{"b":[]}],"c":{}}"#).unwrap();
        let shown = |indent: &str, newline: &str, space: &str| {
            let (indent, newline, space) = (indent.as_bytes(), newline.as_bytes(), space.as_bytes());
            String::from_utf8(text(&value, Layout { indent, newline, space }).unwrap()).unwrap()
        };
        assert_eq!(shown("", "", ""), r#"{"a":[1,{"b":[]}],"c":{}}"#);
        assert_eq!(shown("", "", " "), r#"{"a": [1,{"b": []}],"c": {}}"#);
        assert_eq!(shown("--", "|", " "), r#"{|--"a": [|----1,|----{|------"b": []|----}|--],|--"c": {}|}"#);
    }

    #[test]
    fn a_text_is_bounded() {
        let value = parse(format!("[{}1]", "1,".repeat(2000)).as_bytes()).unwrap();
        let indent = vec![b' '; 1 << 20];
        let layout = Layout { indent: &indent, ..Layout::default() };
        assert_eq!(text(&value, layout).unwrap_err(), errors::STRING_TOO_LONG);
    }
}
