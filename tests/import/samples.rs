//! Whole files. `INSTA_UPDATE=always cargo test --test import` writes the snapshots again; read them afterwards.

use std::path::Path;

use super::{Options, from_disk, mistakes, shown};

/// Each file below `tests/import/keepalived` has a snapshot, and its TOML is one that lvsd takes.
#[test]
fn keepalived() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::env::set_current_dir(root).expect("the project is there");
    let mut files: Vec<_> = std::fs::read_dir("tests/import/keepalived")
        .expect("the directory is there")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "conf"))
        .collect();
    files.sort();
    assert!(files.len() >= 6, "{files:?}");
    for path in files {
        let options = Options { from: None, config_id: Some("lab".to_owned()) };
        let imported = from_disk(&path, &options);
        if let Some(mistakes) = mistakes(&imported.toml) {
            panic!("{}\n{mistakes}\n{}", path.display(), imported.toml);
        }
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        insta::with_settings!({ snapshot_path => "keepalived/snapshots", prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(name, shown(&imported));
        });
    }
}
