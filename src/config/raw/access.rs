//! `control_group` and `control_mode` of `[daemon]`.

use crate::config::text::{Wrong, quote};

/// Without these the daemon's own user could not talk to it.
const OWNER: u32 = 0o600;

/// A name as useradd takes it, or a number.
pub(super) fn group(text: &str) -> Result<String, Wrong> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '$');
    if text.is_empty() || text.len() > 32 || text.starts_with('-') || !text.chars().all(fits) {
        let wrong = Wrong::new(format!("{} is not the name of a group", quote(text)));
        return Err(wrong.remedy("write a name as in \"lvs\", or a number as in \"1001\""));
    }
    Ok(text.to_owned())
}

/// Octal, as chmod takes it.
pub(super) fn mode(text: &str) -> Result<u32, Wrong> {
    let is_octal = (3..=4).contains(&text.len()) && text.bytes().all(|b| (b'0'..=b'7').contains(&b));
    match u32::from_str_radix(text, 8) {
        Ok(mode) if is_octal && mode <= 0o777 => {
            if mode & OWNER != OWNER {
                let wrong = Wrong::new(format!("{} locks out the daemon's own user", quote(text)));
                return Err(wrong.remedy("write \"0600\" for nobody else, \"0660\" for a group as well"));
            }
            Ok(mode)
        }
        Ok(_) | Err(_) => {
            let wrong = Wrong::new(format!("{} is not a mode", quote(text)));
            Err(wrong.remedy("write it octal, as chmod takes it: \"0660\""))
        }
    }
}
