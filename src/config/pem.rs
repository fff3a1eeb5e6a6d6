//! The one thing that loading a configuration asks of the file system: are the TLS files there,
//! and do they hold what they are named for? A check must not find that out at its first run.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::permission::Unusable;

/// The system's own bundle of issuers is a quarter of a megabyte.
const MAX_BYTES: u64 = 8 << 20;

/// What a file must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Pem {
    /// At least one certificate.
    Certificates,
    /// A private key.
    Key,
}

impl Pem {
    pub(super) const fn wanted(self) -> &'static str {
        match self {
            Self::Certificates => "a certificate",
            Self::Key => "a private key",
        }
    }
}

/// Reads a whole file; the loader's only way to the file system, so that tests can do without.
pub(super) type ReadFile<'a> = &'a dyn Fn(&Path) -> Result<Vec<u8>, Unusable>;

/// Each file is read once, however many checks name it.
pub(super) struct PemReader<'a> {
    read: ReadFile<'a>,
    known: HashMap<(PathBuf, Pem), Result<(), Unusable>>,
}

impl<'a> PemReader<'a> {
    pub(super) fn new(read: ReadFile<'a>) -> Self {
        Self { read, known: HashMap::new() }
    }

    pub(super) fn check(&mut self, path: &Path, wanted: Pem) -> Result<(), Unusable> {
        let read = self.read;
        let key = (path.to_owned(), wanted);
        self.known
            .entry(key)
            .or_insert_with(|| read(path).and_then(|bytes| Ok(inspect(&bytes, wanted)?)))
            .clone()
    }
}

fn inspect(bytes: &[u8], wanted: Pem) -> Result<(), String> {
    let broken = |why: rustls_pki_types::pem::Error| match why {
        rustls_pki_types::pem::Error::NoItemsFound => {
            format!("there is no {} in it", wanted.wanted().trim_start_matches("a "))
        }
        why => format!("it is broken: {why}"),
    };
    match wanted {
        Pem::Certificates => {
            let mut certificates = 0;
            for certificate in CertificateDer::pem_slice_iter(bytes) {
                certificate.map_err(broken)?;
                certificates += 1;
            }
            if certificates == 0 { Err("there is no certificate in it".to_owned()) } else { Ok(()) }
        }
        Pem::Key => PrivateKeyDer::from_pem_slice(bytes).map(drop).map_err(broken),
    }
}

/// Regular files only: a FIFO or a device would never end.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, Unusable> {
    let open = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path);
    let unread = |why: std::io::Error| Unusable::unread(path, &why);
    let file = open.map_err(unread)?;
    if !file.metadata().map_err(unread)?.is_file() {
        return Err("it is not a regular file".into());
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unread)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_BYTES {
        return Err(format!("it is larger than {} MiB", MAX_BYTES >> 20).into());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::load_text;

    fn pair() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["www.example.org".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn certificates_and_keys_are_told_apart() {
        let (certificate, key) = pair();
        let both = format!("{key}{certificate}");
        assert_eq!(inspect(certificate.as_bytes(), Pem::Certificates), Ok(()));
        assert_eq!(inspect(key.as_bytes(), Pem::Key), Ok(()));
        assert_eq!(inspect(both.as_bytes(), Pem::Certificates), Ok(()));
        assert_eq!(inspect(both.as_bytes(), Pem::Key), Ok(()));
        assert!(inspect(key.as_bytes(), Pem::Certificates).is_err());
        assert!(inspect(certificate.as_bytes(), Pem::Key).is_err());
        assert!(inspect(b"", Pem::Certificates).is_err());
        let broken = certificate.replace("-----END", "!-----END");
        assert!(inspect(broken.as_bytes(), Pem::Certificates).is_err());
    }

    #[test]
    fn each_file_is_read_once() {
        let count = std::cell::Cell::new(0);
        let (certificate, _) = pair();
        let read = |_: &Path| {
            count.set(count.get() + 1);
            Ok(certificate.clone().into_bytes())
        };
        let mut reader = PemReader::new(&read);
        for _ in 0..5 {
            assert_eq!(reader.check(Path::new("/ca.pem"), Pem::Certificates), Ok(()));
        }
        assert_eq!(count.get(), 1);
    }

    #[test]
    fn files_and_only_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ca.pem");
        std::fs::write(&file, "x").unwrap();
        assert_eq!(read_file(&file), Ok(b"x".to_vec()));
        assert!(read_file(dir.path()).is_err());
        assert!(read_file(&dir.path().join("missing")).is_err());
        assert!(read_file(Path::new("/dev/zero")).is_err());
    }

    #[test]
    fn a_certificate_and_its_key_come_together() {
        let tls = |options: &str| {
            load_text(&format!("[check.x]\ntcp = {{ tls = {{ {options} }} }}\n"))
                .map(drop)
                .map_err(|e| e.to_string())
        };
        assert_eq!(tls("certificate = \"c.pem\", key = \"key.pem\""), Ok(()));
        assert!(tls("key = \"key.pem\"").unwrap_err().contains("`key` has no `certificate`"));
        assert!(tls("certificate = \"c.pem\"").unwrap_err().contains("`certificate` has no `key`"));
    }
}
