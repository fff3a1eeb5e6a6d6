//! What a check says over TCP or UDP, byte by byte: BER for LDAP, packets of MySQL, PostgreSQL and
//! RADIUS, and the values of lvsd.toml around them.

use md5::{Digest, Md5};

use crate::config::import::document::{Table, Value};

/// `{ hex = "…" }`
pub(super) fn hex(bytes: &[u8]) -> Value {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut table = Table::default();
    table.set("hex", digits.join(" "));
    table.into()
}

/// `{ regex = '…' }`
pub(super) fn regex(pattern: impl Into<String>) -> Value {
    let mut table = Table::default();
    table.set("regex", pattern.into());
    table.into()
}

/// One step of a dialogue.
pub(super) fn step(expect: Option<Value>, send: Option<Value>) -> Value {
    let mut table = Table::default();
    table.set_if("expect", expect);
    table.set_if("send", send);
    table.into()
}

fn ber(tag: u8, content: &[u8]) -> Vec<u8> {
    // Four bytes of length, always: what is written here is short, but a name may be long.
    let length = u32::try_from(content.len()).unwrap_or(u32::MAX).to_be_bytes();
    [&[tag, 0x84][..], &length, content].concat()
}

/// RFC 4511 section 4.2: a simple bind, message 1.
pub(super) fn ldap_bind(name: &str, password: &str) -> Vec<u8> {
    let version = ber(0x02, &[3]);
    let bind = ber(0x60, &[version, ber(0x04, name.as_bytes()), ber(0x80, password.as_bytes())].concat());
    ber(0x30, &[ber(0x02, &[1]), bind].concat())
}

/// RFC 4511 section 4.5: the entry of this name itself, message 2.
pub(super) fn ldap_search(base: &str) -> Vec<u8> {
    let scope_and_aliases = [ber(0x0a, &[0]), ber(0x0a, &[0])].concat();
    let limits = [ber(0x02, &[0]), ber(0x02, &[0]), ber(0x01, &[0])].concat();
    let present = ber(0x87, b"objectClass");
    let search = [ber(0x04, base.as_bytes()), scope_and_aliases, limits, present, ber(0x30, &[])].concat();
    ber(0x30, &[ber(0x02, &[2]), ber(0x63, &search)].concat())
}

pub(super) const LDAP_UNBIND: [u8; 7] = [0x30, 5, 2, 1, 3, 0x42, 0];

/// HandshakeResponse41 as `user` without a password, packet 1.
pub(super) fn mysql_login(user: &str) -> Vec<u8> {
    let flags = [0x01, 0x82, 0x08, 0x00, 0, 0, 0, 1, 0x21];
    let body = [&flags[..], &[0; 23], user.as_bytes(), &[0, 0], b"mysql_native_password\0"].concat();
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes();
    [length.get(..3).unwrap_or_default(), &[1], &body].concat()
}

pub(super) const MYSQL_QUIT: [u8; 5] = [1, 0, 0, 0, 1];

/// StartupMessage of protocol 3.0.
pub(super) fn postgresql_start(user: &str, database: &str) -> Vec<u8> {
    let texts = [b"user\0", user.as_bytes(), b"\0database\0", database.as_bytes(), b"\0\0"].concat();
    let length = u32::try_from(texts.len() + 8).unwrap_or(u32::MAX).to_be_bytes();
    [&length[..], &[0, 3, 0, 0], &texts].concat()
}

pub(super) const POSTGRESQL_END: [u8; 5] = [b'X', 0, 0, 0, 4];

/// Longer ones do not fit into an attribute.
pub(super) const RADIUS_LONGEST: usize = 128;

/// RFC 2865 Access-Request, number 1, with a password by PAP and RFC 3579's Message-Authenticator.
/// The request authenticator is fixed: the packet must be written down once for all.
pub(super) fn radius_request(user: &str, password: &str, secret: &str) -> Vec<u8> {
    let authenticator: Vec<u8> = (0_u8..16).collect();
    let mut hidden: Vec<u8> = Vec::new();
    let mut before = authenticator.clone();
    let mut padded = password.as_bytes().to_vec();
    padded.resize(padded.len().max(1).next_multiple_of(16), 0);
    for block in padded.chunks(16) {
        let key = Md5::digest([secret.as_bytes(), &before].concat());
        before = block.iter().zip(key).map(|(byte, key)| byte ^ key).collect();
        hidden.extend(&before);
    }
    let attribute = |kind: u8, value: &[u8]| {
        let length = u8::try_from(value.len() + 2).unwrap_or(u8::MAX);
        [&[kind, length][..], value].concat()
    };
    let attributes = [attribute(1, user.as_bytes()), attribute(2, &hidden), attribute(32, b"lvsd")].concat();
    let length = u16::try_from(20 + attributes.len() + 18).unwrap_or(u16::MAX).to_be_bytes();
    let unsigned = [&[1, 1][..], &length, &authenticator, &attributes, &[80, 18]].concat();
    let signature = hmac_md5(secret.as_bytes(), &[&unsigned[..], &[0; 16]].concat());
    [&unsigned[..], &signature].concat()
}

/// RFC 2104.
fn hmac_md5(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut block = if key.len() > 64 { Md5::digest(key).to_vec() } else { key.to_vec() };
    block.resize(64, 0);
    let pad = |with: u8| block.iter().map(|byte| byte ^ with).collect::<Vec<u8>>();
    let inner = Md5::digest([&pad(0x36), text].concat());
    Md5::digest([&pad(0x5c)[..], &inner].concat()).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// RFC 2202 section 2, test cases 1, 2 and 6.
    #[test]
    fn hmac() {
        assert_eq!(plain(&hmac_md5(&[0x0b; 16], b"Hi There")), "9294727a3638bb1c13f48ef8158bfc9d");
        assert_eq!(
            plain(&hmac_md5(b"Jefe", b"what do ya want for nothing?")),
            "750c783e6ab0b503eaa86e310a5db738"
        );
        let long = hmac_md5(&[0xaa; 80], b"Test Using Larger Than Block-Size Key - Hash Key First");
        assert_eq!(plain(&long), "6b1ab7fe4bd7bf8f0b62e6ce61b9d0cd");
    }

    /// The ready-made checks of config/examples, which were tried on real servers.
    #[test]
    fn as_in_the_examples() {
        let spaced = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" ");
        let mysql = include_str!("../../../../config/examples/checks/mysql.toml");
        for packet in [&mysql_login("lvsd")[..], &MYSQL_QUIT] {
            assert!(mysql.contains(&format!("\"{}\"", spaced(packet))), "{}", spaced(packet));
        }
        let postgresql = include_str!("../../../../config/examples/checks/postgresql.toml");
        for packet in [&postgresql_start("lvsd", "lvsd")[..], &POSTGRESQL_END] {
            assert!(postgresql.contains(&format!("\"{}\"", spaced(packet))), "{}", spaced(packet));
        }
    }

    #[test]
    fn a_radius_password_is_hidden_as_rfc_2865_says() {
        let packet = radius_request("nemo", "arctangent", "xyzzy5461");
        assert_eq!(packet.len(), usize::from(packet[3]));
        // One block: the password, zeroes, and MD5(secret + authenticator) over both.
        let key = Md5::digest([b"xyzzy5461", &packet[4..20]].concat());
        let shown: Vec<u8> = packet[28..44].iter().zip(key).map(|(byte, key)| byte ^ key).collect();
        assert_eq!(shown, b"arctangent\0\0\0\0\0\0");
    }
}
