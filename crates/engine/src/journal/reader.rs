//! Reading the journal from a revision on, up to what is durable: for the archive and for change feeds.

use std::sync::Arc;

use keystead_core::{Code, Error, Result};

use super::Progress;
use super::record::HEADER_BYTES as RECORD_HEADER_BYTES;
use super::segment::{HEADER_BYTES, Owner, Segment, path_of};
use super::segments::Segments;

/// A place in a journal that is being written.
pub(crate) struct Reader {
    segments: Arc<Segments>,
    progress: Arc<Progress>,
    owner: Owner,
    /// The revision that comes next.
    next: u64,
    place: Option<(Segment, u64)>,
    buffer: Vec<u8>,
}

impl Reader {
    /// A reader of everything after `after`.
    pub(crate) fn after(after: u64, segments: Arc<Segments>, progress: Arc<Progress>, owner: Owner) -> Self {
        Reader { segments, progress, owner, next: after + 1, place: None, buffer: Vec::new() }
    }

    /// The effects of the next record, encoded, which may begin with some that are older than asked for. `None` when everything
    /// that is durable was read.
    ///
    /// # Errors
    /// `gone` when the journal no longer has what comes next, `corrupt` when it is damaged.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>> {
        if self.next > self.progress.durable() {
            return Ok(None);
        }
        loop {
            self.find_segment()?;
            let Some((segment, offset)) = &mut self.place else { return Err(self.gone()) };
            match segment.read(*offset, &mut self.buffer)? {
                Some(header) => {
                    *offset += header.record_len() as u64;
                    if header.last >= self.next {
                        self.next = header.last + 1;
                        return Ok(Some(&self.buffer[RECORD_HEADER_BYTES..]));
                    }
                }
                // What comes next is durable, so it begins the next segment, unless this one was let go of.
                None if self.segments.holding(self.next) != Some(segment.header.first) => self.place = None,
                None if self.next < self.progress.oldest() => return Err(self.gone()),
                None => {
                    let place = format!("at byte {offset} of {}", segment.path.display());
                    return Err(Error::new(Code::Corrupt, format!("the journal is damaged {place}")));
                }
            }
        }
    }

    fn find_segment(&mut self) -> Result<()> {
        if self.place.is_some() {
            return Ok(());
        }
        let Some(first) = self.segments.holding(self.next) else { return Err(self.gone()) };
        match Segment::open(&path_of(self.segments.dir(), first), self.owner) {
            Ok(Some(segment)) if segment.header.first == first => self.place = Some((segment, HEADER_BYTES)),
            // It was let go of between the two looks.
            _ if self.next < self.progress.oldest() => return Err(self.gone()),
            Ok(_) => {
                return Err(Error::new(
                    Code::Corrupt,
                    format!("the journal segment of revision {first} is damaged"),
                ));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn gone(&self) -> Error {
        Error::new(
            Code::Gone,
            format!("revision {} is no longer kept, the oldest is {}", self.next, self.progress.oldest()),
        )
    }
}
