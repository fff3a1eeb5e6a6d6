//! Texts of configurations, for fuzzing: lvsd's own, and other programs' for `lvsd import`.

use std::path::{Path, PathBuf};

use super::import::{Format, Imported, Options, Reader, import};
use super::*;
use crate::engine::model::{CheckKind, Tcp};

/// Loads and renders; what was loaded, if it is good. Every PEM file and secret is there and good.
pub(crate) fn load(text: &str) -> Option<Config> {
    let sources = Sources::from_text("lvsd.toml", Path::new("/etc/lvsd"), text);
    drop(syntax::control_socket(text));
    drop(syntax::include_patterns(text));
    assert_eq!(sources.digest(), sources.clone().digest());
    let (first, again) = (load_sources(&sources), load_sources(&sources));
    assert!(first == again, "loaded twice, it is another configuration");
    let read = |kept: &Kept| load_after_with(&sources, kept, &|path| Ok(pem_for(path)), &|_| Ok(())).ok();
    let known = read(&Kept::default()).and_then(|known| read(&known.kept)).map(|known| known.loaded.config);
    assert!(first == known, "loaded when it is known, it is another configuration");
    first
}

/// Sources as a client of the control socket sends them.
pub(crate) fn load_sent(sources: serde_json::Value) -> Option<Config> {
    load_sources(&serde_json::from_value(sources).ok()?)
}

fn load_sources(sources: &Sources) -> Option<Config> {
    match load_with(sources, &|path| Ok(pem_for(path)), &|_| Ok(())) {
        Ok(loaded) => {
            assert_eq!(loaded.warnings.error_count(), 0);
            render(&loaded.warnings);
            Some(loaded.config)
        }
        Err(errors) => {
            assert!(errors.error_count() > 0, "refused, and nothing said: {errors}");
            render(&errors);
            None
        }
    }
}

fn pem_for(path: &Path) -> Vec<u8> {
    let label = if path.ends_with("key.pem") { "PRIVATE KEY" } else { "CERTIFICATE" };
    format!("-----BEGIN {label}-----\nMAA=\n-----END {label}-----\n").into_bytes()
}

fn render(found: &Diagnostics) {
    assert!(found.iter().count() <= MAX_SHOWN);
    for spot in
        found.iter().flat_map(|one| std::iter::once(&one.spot).chain(one.labels.iter().map(|l| &l.spot)))
    {
        if let Some(line) = &spot.line {
            assert!(line.number > 0 && line.column > 0, "{line:?}");
            assert!(line.text.get(line.highlight.clone()).is_some(), "{line:?}");
        }
    }
    drop(found.render(Palette::Colour));
    drop(found.render(Palette::Plain));
    for line in found.lines() {
        assert!(!line.contains('\n'), "one line in the log: {line:?}");
    }
}

/// The first `tcp` check of a good configuration that has this text as the check's value.
pub(crate) fn tcp(text: &str) -> Option<Tcp> {
    let config = load(&format!(
        "[[virtual_server]]\naddress = \"192.0.2.10:80\"\n\
         [[virtual_server.real_server]]\naddress = \"198.51.100.11:80\"\ncheck = {{ tcp = {text} }}\n"
    ))?;
    let servers = config.virtual_servers.iter().flat_map(|pool| &pool.real_servers);
    servers.flat_map(|server| &server.checks).find_map(|check| match check.probe.kind.as_ref() {
        CheckKind::Tcp(tcp) => Some(tcp.clone()),
        _other => None,
    })
}

/// Files in one text: each begins with a line `%%% NAME`, the main one without.
struct Files(Vec<(PathBuf, Vec<u8>)>);

const MAIN: &str = "/etc/main.conf";

impl Files {
    fn new(bytes: &[u8]) -> Self {
        let mut files = vec![(PathBuf::from(MAIN), Vec::new())];
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            match (line.strip_prefix(b"%%% "), files.last_mut()) {
                (Some(name), _) => {
                    let name = String::from_utf8_lossy(name.trim_ascii()).into_owned();
                    files.push((Path::new("/etc").join(name), Vec::new()));
                }
                (None, Some((_, text))) => text.extend_from_slice(line),
                (None, None) => {}
            }
        }
        Self(files)
    }
}

impl Reader for Files {
    fn read(&self, path: &Path) -> Result<Vec<u8>, String> {
        let found = self.0.iter().find(|(name, _)| name == path);
        found.map(|(_, text)| text.clone()).ok_or_else(|| "no such file".to_owned())
    }

    fn matching(&self, pattern: &Path) -> Result<Vec<PathBuf>, String> {
        if !pattern.to_string_lossy().contains(['*', '?', '[']) {
            return Ok(vec![pattern.to_owned()]);
        }
        let pattern = glob::Pattern::new(&pattern.to_string_lossy()).map_err(|why| why.to_string())?;
        Ok(self.0.iter().map(|(name, _)| name.clone()).filter(|name| pattern.matches_path(name)).collect())
    }
}

pub(crate) fn import_keepalived(bytes: &[u8]) {
    imported(bytes, Format::Keepalived);
}

pub(crate) fn import_ldirectord(bytes: &[u8]) {
    imported(bytes, Format::Ldirectord);
}

/// Whatever comes in, what comes out is a configuration that lvsd takes.
fn imported(bytes: &[u8], format: Format) {
    let files = Files::new(bytes);
    let read = |from| {
        let options = Options { from, config_id: Some("lab".to_owned()) };
        import(Path::new(MAIN), &options, &files)
    };
    drop(read(None).map_err(|refused| refused.to_string()));
    let first = read(Some(format));
    assert_eq!(first, read(Some(format)), "imported twice, it is another configuration");
    let Ok(Imported { toml, notes }) = first else { return };
    for note in &notes {
        assert!(!note.to_string().contains('\n'), "a note is one line: {note:?}");
    }
    let sources = Sources::from_text("lvsd.toml", Path::new("/etc/lvsd"), &toml);
    if let Err(errors) = load_with(&sources, &|path| Ok(pem_for(path)), &|_| Ok(())) {
        assert!(errors.is_empty(), "what was imported is refused:\n{errors}\n---\n{toml}");
    }
}
