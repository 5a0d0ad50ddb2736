//! The checksums of a result's files.

use std::collections::BTreeMap;

use plimsoll_model::recording::model::file;

use super::{RECORDING, TaskResult};
use crate::{FleetError, Folder, fingerprint};

/// SHA-256 of the files of a result by path, without those of other names than a recording has.
pub(super) fn checksums(result: &Folder) -> Result<BTreeMap<String, String>, FleetError> {
    let mut checksums = BTreeMap::new();
    checksums.extend(
        result
            .sha256(fingerprint::FILE, u64::MAX)?
            .map(|hash| (fingerprint::FILE.to_owned(), hash)),
    );
    let Some(recording) = result.folder(RECORDING)? else {
        return Ok(checksums);
    };
    for name in file::ALL {
        let hash = recording.sha256(name, u64::MAX)?;
        checksums.extend(hash.map(|hash| (format!("{RECORDING}/{name}"), hash)));
    }
    Ok(checksums)
}

/// Whether the files in the folder of a result are those that it was published with. Reads all of them.
///
/// Its report may be another one: `plimsoll report` writes it anew, and no other file.
pub(super) fn is_whole(result: &TaskResult, folder: &Folder) -> Result<bool, FleetError> {
    if !result.recording || !folder.is_folder(RECORDING) {
        return Ok(false);
    }
    let report = format!("{RECORDING}/{}", file::REPORT);
    let mut found = checksums(folder)?;
    found.remove(&report);
    let published = result.checksums.iter().filter(|(path, _)| **path != report);
    Ok(found.iter().eq(published))
}
