//! One small file for each rule of the configuration, and what lvsd says about it: message,
//! place and remedy. The file's name says which rule.

use std::path::{Path, PathBuf};

use lvsd::config::{Diagnostics, Sources, load};

fn cases() -> std::io::Result<Vec<PathBuf>> {
    let mut cases = Vec::new();
    for entry in std::fs::read_dir("tests/diagnostics")? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            cases.push(path);
        }
    }
    cases.sort();
    Ok(cases)
}

/// Errors, or the warnings of a good file.
fn diagnostics(path: &Path) -> Diagnostics {
    match Sources::read(path).and_then(|sources| load(&sources)) {
        Ok(loaded) => loaded.warnings,
        Err(errors) => errors,
    }
}

#[test]
fn every_rule() {
    let cases = cases().expect("the directory of cases");
    assert!(cases.len() > 50, "{} cases", cases.len());
    for case in cases {
        let name = case.file_stem().and_then(|stem| stem.to_str()).expect("a plain name").to_owned();
        let found = diagnostics(&case);
        let is_warning = found.error_count() == 0;
        assert_eq!(is_warning, name.starts_with("warn-"), "{name}:\n{found}");
        assert!(!found.is_empty(), "{name} finds nothing");
        insta::with_settings!({ snapshot_path => "diagnostics/snapshots", prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(name, found.to_string());
        });
    }
}

#[test]
fn every_mistake_has_a_place_and_a_remedy() {
    for case in cases().expect("the directory of cases") {
        for diagnostic in &diagnostics(&case) {
            let place = format!("{}:", diagnostic.spot.path);
            assert!(diagnostic.to_string().starts_with(&place), "{diagnostic}");
            assert!(diagnostic.spot.line.is_some(), "{diagnostic}");
            let is_syntax = diagnostic.message.starts_with("not TOML");
            assert!(diagnostic.remedy.is_some() || is_syntax, "{diagnostic}");
            assert!(!diagnostic.message.ends_with('.'), "{diagnostic}");
        }
    }
}

/// The first line of each has `path:line:col`, in the rendering and in the log.
#[test]
fn the_first_line_has_the_place() {
    for case in cases().expect("the directory of cases") {
        let found = diagnostics(&case);
        let rendered = found.to_string();
        for diagnostic in &found {
            let head = format!("{}: {}: ", diagnostic.spot, diagnostic.severity.name());
            assert!(
                rendered.contains(&format!("\n{head}")) || rendered.starts_with(&head),
                "{head}\n{rendered}"
            );
        }
        for line in found.lines() {
            assert!(!line.contains('\n'), "{line}");
        }
    }
}
