//! The bytes of a request.

use std::net::{IpAddr, Ipv6Addr};

use crate::engine::model::{Http, HttpVersion, Target};

const USER_AGENT: &str = concat!("lvsd/", env!("CARGO_PKG_VERSION"));

/// All that the requests of one check share.
#[derive(Debug)]
pub(super) struct Template {
    pub(super) method: String,
    version: &'static str,
    /// Header lines but for Host and those about a body.
    fields: String,
    /// Header lines about the body, which go when the body goes.
    body_fields: String,
    body: Vec<u8>,
    /// Configured as a header: stands for the virtual host.
    pub(super) host: Option<String>,
}

/// Whether a request carries the configured body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carry {
    Body,
    Nothing,
}

impl Template {
    pub(super) fn new(http: &Http) -> Self {
        let mut template = Self {
            method: http.method.clone(),
            version: match http.version {
                HttpVersion::Http10 => "HTTP/1.0",
                HttpVersion::Http11 => "HTTP/1.1",
            },
            fields: String::new(),
            body_fields: String::new(),
            body: http.request_body.clone().unwrap_or_default(),
            host: None,
        };
        let configured = |name: &str| http.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        for (name, value) in [("User-Agent", USER_AGENT), ("Accept", "*/*"), ("Connection", "close")] {
            if !configured(name) {
                push_field(&mut template.fields, name, value);
            }
        }
        // A method that usually has a body is taken to have an unknown one without it.
        let has_body =
            http.request_body.is_some() || matches!(http.method.as_str(), "POST" | "PUT" | "PATCH");
        if has_body && !configured("Content-Length") && !configured("Transfer-Encoding") {
            push_field(&mut template.body_fields, "Content-Length", &template.body.len().to_string());
        }
        for (name, value) in &http.headers {
            if name.eq_ignore_ascii_case("Host") {
                template.host = Some(value.clone());
                continue;
            }
            let about_body = ["content-", "transfer-encoding"]
                .iter()
                .any(|start| name.get(..start.len()).is_some_and(|it| it.eq_ignore_ascii_case(start)));
            let fields = if about_body { &mut template.body_fields } else { &mut template.fields };
            push_field(fields, name, value);
        }
        template
    }

    pub(super) fn render(&self, method: &str, path: &str, host: &str, carry: Carry) -> Vec<u8> {
        let (fields, body): (&str, &[u8]) = match carry {
            Carry::Body => (&self.body_fields, &self.body),
            Carry::Nothing => ("", &[]),
        };
        let parts =
            [method, " ", path, " ", self.version, "\r\nHost: ", host, "\r\n", &self.fields, fields, "\r\n"];
        let length = parts.iter().map(|part| part.len()).sum::<usize>() + body.len();
        let mut bytes = Vec::with_capacity(length);
        for part in parts {
            bytes.extend_from_slice(part.as_bytes());
        }
        bytes.extend_from_slice(body);
        bytes
    }
}

fn push_field(fields: &mut String, name: &str, value: &str) {
    for part in [name, ": ", value, "\r\n"] {
        fields.push_str(part);
    }
}

/// `198.51.100.11`, `[2001:db8::1]:8080`: the port only if it is not the scheme's own.
pub(super) fn host_of(target: &Target, scheme: Scheme) -> String {
    let address = match target.address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    };
    if target.port == scheme.port() { address } else { format!("{address}:{}", target.port) }
}

/// A virtual host as a Host header: an IPv6 address gets its brackets and loses its zone.
pub(super) fn host_field(virtual_host: &str) -> String {
    let bare = virtual_host.split('%').next().unwrap_or_default();
    match bare.parse::<Ipv6Addr>() {
        Ok(address) => format!("[{address}]"),
        Err(_) => virtual_host.to_owned(),
    }
}

/// A Host header without its port: `[2001:db8::1]:8080` → `[2001:db8::1]`.
pub(super) fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') && port.bytes().all(|b| b.is_ascii_digit()) => name,
        Some(_) | None => host,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    const fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http() -> Http {
        Http {
            urls: Vec::new(),
            method: "GET".to_owned(),
            version: HttpVersion::Http11,
            virtualhost: None,
            headers: Vec::new(),
            request_body: None,
            max_body: 0,
            tls: None,
            follow_redirects: false,
        }
    }

    fn render(http: &Http) -> String {
        let template = Template::new(http);
        String::from_utf8(template.render(&http.method, "/x", "a.example", Carry::Body)).unwrap()
    }

    #[test]
    fn what_is_sent_when_nothing_is_configured() {
        let agent = env!("CARGO_PKG_VERSION");
        let wanted = format!(
            "GET /x HTTP/1.1\r\nHost: a.example\r\nUser-Agent: lvsd/{agent}\r\nAccept: */*\r\nConnection: close\r\n\r\n"
        );
        assert_eq!(render(&http()), wanted);
    }

    #[test]
    fn configured_headers_replace_ours() {
        let headers =
            [("user-agent", "me"), ("HOST", "b.example"), ("X-Check", "1"), ("accept", "text/html")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let http = Http { headers, version: HttpVersion::Http10, ..http() };
        assert_eq!(Template::new(&http).host.as_deref(), Some("b.example"));
        let wanted = "GET /x HTTP/1.0\r\nHost: a.example\r\nConnection: close\r\n\
                      user-agent: me\r\nX-Check: 1\r\naccept: text/html\r\n\r\n";
        assert_eq!(render(&http), wanted);
    }

    #[test]
    fn a_body_has_its_length_and_goes_with_it() {
        let headers = vec![("Content-Type".to_owned(), "text/plain".to_owned())];
        let http =
            Http { method: "POST".to_owned(), request_body: Some(b"ping".to_vec()), headers, ..http() };
        let text = render(&http);
        assert!(text.ends_with("\r\nContent-Length: 4\r\nContent-Type: text/plain\r\n\r\nping"), "{text}");
        let bare = Template::new(&http).render("GET", "/", "h", Carry::Nothing);
        assert!(bare.ends_with(b"Connection: close\r\n\r\n"));
        let empty = Http { request_body: None, headers: Vec::new(), ..http };
        assert!(render(&empty).ends_with("\r\nContent-Length: 0\r\n\r\n"));
    }

    #[test]
    fn hosts_of_targets_and_virtual_hosts() {
        let target = |address: &str, port| Target { address: address.parse().unwrap(), port, source: None };
        let cases = [
            ("198.51.100.11", 80, Scheme::Http, "198.51.100.11"),
            ("198.51.100.11", 443, Scheme::Http, "198.51.100.11:443"),
            ("198.51.100.11", 443, Scheme::Https, "198.51.100.11"),
            ("2001:db8::1", 80, Scheme::Http, "[2001:db8::1]"),
            ("2001:db8::1", 8080, Scheme::Http, "[2001:db8::1]:8080"),
        ];
        for (address, port, scheme, host) in cases {
            assert_eq!(host_of(&target(address, port), scheme), host);
        }
        for (virtual_host, host) in [
            ("www.example:8080", "www.example:8080"),
            ("2001:db8::1", "[2001:db8::1]"),
            ("fe80::1%eth0", "[fe80::1]"),
            ("[::1]:8080", "[::1]:8080"),
        ] {
            assert_eq!(host_field(virtual_host), host);
        }
        for (host, name) in [
            ("www.example", "www.example"),
            ("www.example:8080", "www.example"),
            ("[::1]", "[::1]"),
            ("[::1]:80", "[::1]"),
            ("192.0.2.1:80", "192.0.2.1"),
        ] {
            assert_eq!(without_port(host), name);
        }
    }
}
