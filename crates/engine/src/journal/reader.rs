//! Reading the journal from a revision on, up to the last durable one: for the archive and for change feeds.

use std::sync::Arc;

use keystead_core::{Code, Error, Result, Revision};

use super::Progress;
use super::record::HEADER_BYTES as RECORD_HEADER_BYTES;
use super::segment::{HEADER_BYTES, Owner, Segment, path_of};
use super::segments::Segments;

/// A position in a journal that is being written.
pub(crate) struct Reader {
    segments: Arc<Segments>,
    progress: Arc<Progress>,
    owner: Owner,
    /// The next revision to read.
    next: Revision,
    position: Option<(Segment, u64)>,
    buffer: Vec<u8>,
}

impl Reader {
    /// A reader of everything after `after`.
    pub(crate) fn after(
        after: Revision,
        segments: Arc<Segments>,
        progress: Arc<Progress>,
        owner: Owner,
    ) -> Self {
        Reader { segments, progress, owner, next: after.next(), position: None, buffer: Vec::new() }
    }

    /// The next revision to read.
    pub(crate) fn next_revision(&self) -> Revision {
        self.next
    }

    /// The encoded effects of the next record, which may begin with some that are older than requested. `None` when everything
    /// durable has been read.
    ///
    /// # Errors
    /// `gone` when the next records have been recycled, `corrupt` when the journal is damaged.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>> {
        if self.next > self.progress.durable() {
            return Ok(None);
        }
        loop {
            self.find_segment()?;
            let Some((segment, offset)) = &mut self.position else { return Err(self.gone()) };
            match segment.read(*offset, &mut self.buffer)? {
                Some(header) => {
                    *offset += header.record_len() as u64;
                    if header.last >= self.next {
                        self.next = header.last.next();
                        return Ok(Some(&self.buffer[RECORD_HEADER_BYTES..]));
                    }
                }
                // The next revision is durable, so it begins the next segment, unless this one was recycled.
                None if self.segments.holding(self.next) != Some(segment.header.first) => {
                    self.position = None;
                }
                None if self.next < self.progress.oldest() => return Err(self.gone()),
                None => {
                    let offset = format!("at byte {offset} of {}", segment.path.display());
                    return Err(Error::new(Code::Corrupt, format!("the journal is damaged {offset}")));
                }
            }
        }
    }

    fn find_segment(&mut self) -> Result<()> {
        if self.position.is_some() {
            return Ok(());
        }
        let Some(first) = self.segments.holding(self.next) else { return Err(self.gone()) };
        match Segment::open(&path_of(self.segments.dir(), first), self.owner) {
            Ok(Some(segment)) if segment.header.first == first => {
                self.position = Some((segment, HEADER_BYTES));
            }
            // It was recycled since `holding` was called.
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
