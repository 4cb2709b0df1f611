//! Directories that cannot be written.

use std::fs;

use keystead_core::Code;
use keystead_engine::{Engine, check};

use crate::common::options;

#[tokio::test]
async fn a_directory_that_cannot_be_written_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "in the way").unwrap();
    // In the first one not even root can create anything.
    for path in ["/proc/keystead".into(), file.clone(), file.join("below")] {
        let error = Engine::open(&options(&path)).err().unwrap();
        assert_eq!(error.code(), Code::StoreUnavailable, "{error}");
        assert!(error.message().contains(&*path.display().to_string()), "{error}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "in the way");
}

#[tokio::test]
async fn a_directory_in_place_of_a_file_is_named() {
    for name in ["lock", "database.json", "shard-0/archive.sqlite"] {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join(name)).unwrap();
        let error = Engine::open(&options(dir.path())).err().unwrap();
        assert!(matches!(error.code(), Code::StoreUnavailable | Code::Corrupt), "{name}: {error}");
    }
    for name in ["shard-0", "shard-0/journal"] {
        let dir = tempfile::tempdir().unwrap();
        Engine::open(&options(dir.path())).unwrap().close().await.unwrap();
        fs::remove_dir_all(dir.path().join(name)).unwrap();
        fs::write(dir.path().join(name), "in the way").unwrap();
        let error = Engine::open(&options(dir.path())).err().unwrap();
        assert_eq!(error.code(), Code::StoreUnavailable, "{name}: {error}");
        assert!(error.message().contains(name), "{name}: {error}");
    }
}

#[tokio::test]
async fn only_a_database_can_be_checked() {
    let dir = tempfile::tempdir().unwrap();
    for path in [dir.path().to_path_buf(), dir.path().join("nowhere")] {
        assert_eq!(check(&path).unwrap_err().code(), Code::ConfigInvalid);
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "a check creates nothing");
    let engine = Engine::open(&options(dir.path())).unwrap();
    let error = check(dir.path()).unwrap_err();
    assert_eq!(error.code(), Code::StoreUnavailable, "{error}");
    assert!(error.message().contains("open in this process"), "{error}");
    engine.close().await.unwrap();
    assert_eq!(check(dir.path()).unwrap().problems, Vec::<String>::new());
}
