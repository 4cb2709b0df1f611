//! Copies the end of a journal to another database.

use std::collections::BTreeMap;
use std::sync::Arc;

use keystead_core::{Code, Error, Result, Revision};
use keystead_model::effect::{Decoder, Effect, encode};

use super::reader::Reader;
use super::record;
use super::segments::Segments;
use super::writer::Writer;
use crate::archive::archiver::Copy;
use crate::directory::{cannot, sync_dir};

/// Copies what `reader` reads, from its next revision at least up to `until`, and returns the last revision.
pub(crate) fn copy_records(reader: &mut Reader, until: Revision, copy: &Copy) -> Result<Revision> {
    let dir = &copy.files.journal;
    let failed = |e| cannot("write a journal in", dir, &e);
    let segments = Arc::new(Segments::new(dir, copy.segment_bytes, BTreeMap::new(), 0)?);
    let first = reader.next_revision();
    let mut writer = Writer::begin(segments, copy.owner, first).map_err(failed)?;
    let (mut last, mut bytes, mut records) = (Revision::ZERO, Vec::new(), Vec::new());
    while last < until {
        let Some(effects) = reader.next()? else {
            return Err(Error::new(Code::Internal, format!("the journal ends before revision {until}")));
        };
        // The first record may begin with older effects.
        let effects = Decoder::new(effects).filter(|e| e.as_ref().map_or(true, |e| e.revision >= first));
        let effects: Vec<Effect> = effects.collect::<Result<_>>()?;
        let (Some(from), Some(to)) = (effects.first(), effects.last()) else { continue };
        bytes.clear();
        encode(&effects, &mut bytes);
        if let Some(full) = writer.begin_record(from.revision, bytes.len()).map_err(failed)? {
            full.sync_data().map_err(failed)?;
        }
        records.clear();
        record::append(&mut records, writer.salt(), from.revision, to.revision, Revision::ZERO, &bytes);
        writer.write(&records).map_err(failed)?;
        last = to.revision;
    }
    writer.finish().and_then(|()| sync_dir(dir)).map_err(failed)?;
    Ok(last)
}
