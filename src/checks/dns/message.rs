//! Questions and replies on the wire, by hickory-proto; pure.

use std::net::IpAddr;

use hickory_proto::op::{Message, MessageType, OpCode, Query};
use hickory_proto::rr::{DNSClass, Name, RData, RecordType};

/// Answers that a reason shows.
const SHOWN: usize = 5;
/// Characters of each of them.
const SHOWN_LENGTH: usize = 80;

#[derive(Debug)]
pub(super) struct Question {
    name: Name,
    record_type: RecordType,
}

/// A reply to our question.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) rcode: u8,
    pub(super) truncated: bool,
    answers: Vec<RData>,
}

impl Question {
    pub(super) fn new(name: &str, record_type: u16) -> Result<Self, String> {
        let mut name = Name::from_ascii(name).map_err(|error| error.to_string())?;
        name.set_fqdn(true);
        Ok(Self { name, record_type: RecordType::from(record_type) })
    }

    /// Recursion is desired, as clients of a resolver do; authoritative servers ignore it.
    pub(super) fn query(&self, id: u16) -> Result<Vec<u8>, String> {
        let mut message = Message::new(id, MessageType::Query, OpCode::Query);
        message.metadata.recursion_desired = true;
        message.add_query(Query::query(self.name.clone(), self.record_type));
        message.to_vec().map_err(|error| error.to_string())
    }

    /// `Err` says why these bytes are not the reply to this question.
    pub(super) fn read_reply(&self, id: u16, bytes: &[u8]) -> Result<Reply, String> {
        let message = Message::from_vec(bytes).map_err(|error| format!("not a DNS message: {error}"))?;
        let metadata = message.metadata;
        if metadata.id != id {
            return Err("the id is not that of the query".to_owned());
        }
        if metadata.message_type != MessageType::Response || metadata.op_code != OpCode::Query {
            return Err("not a response to a query".to_owned());
        }
        let rcode = metadata.response_code.low();
        match message.queries.as_slice() {
            [query] if self.is(query) => {}
            // A server that could not or would not read the question need not repeat it.
            [] if rcode != 0 => {}
            _ => return Err("the question in it is not ours".to_owned()),
        }
        let answers = message.answers.into_iter().map(|record| record.data).collect();
        Ok(Reply { rcode, truncated: metadata.truncation, answers })
    }

    /// Names are compared without case, which some servers change.
    fn is(&self, query: &Query) -> bool {
        query.name == self.name && query.query_type == self.record_type && query.query_class == DNSClass::IN
    }
}

impl Reply {
    pub(super) fn answers(&self) -> usize {
        self.answers.len()
    }

    /// Is this address, name or text among the answers?
    pub(super) fn has(&self, wanted: &str) -> bool {
        let address: Option<IpAddr> = wanted.parse().ok();
        self.answers.iter().any(|data| match (data, address) {
            (RData::A(a), Some(IpAddr::V4(wanted))) => a.0 == wanted,
            (RData::AAAA(a), Some(IpAddr::V6(wanted))) => a.0 == wanted,
            (RData::TXT(txt), _) => {
                // RFC 7208 section 3.3: the strings of one record are read as one.
                txt.txt_data.iter().flat_map(|part| part.iter()).eq(wanted.as_bytes())
            }
            (RData::CNAME(name), _) => is_name(&name.0, wanted),
            (RData::NS(name), _) => is_name(&name.0, wanted),
            (RData::PTR(name), _) => is_name(&name.0, wanted),
            (RData::MX(mx), _) if is_name(&mx.exchange, wanted) => true,
            (RData::SRV(srv), _) if is_name(&srv.target, wanted) => true,
            (RData::SOA(soa), _) if is_name(&soa.mname, wanted) => true,
            (other, _) => other.to_string().eq_ignore_ascii_case(wanted),
        })
    }

    pub(super) fn answers_as_text(&self) -> String {
        if self.answers.is_empty() {
            return "there are none".to_owned();
        }
        let mut shown: Vec<String> = self.answers.iter().take(SHOWN).map(shown).collect();
        if self.answers.len() > SHOWN {
            shown.push("…".to_owned());
        }
        shown.join(", ")
    }
}

fn is_name(name: &Name, wanted: &str) -> bool {
    let text = name.to_ascii();
    let bare = |text: &str| text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    bare(&text) == bare(wanted)
}

fn shown(data: &RData) -> String {
    data.to_string().chars().take(SHOWN_LENGTH).flat_map(char::escape_debug).collect()
}

/// RFC 6895 section 2.3, as far as four bits go.
pub(super) fn rcode_name(rcode: u8) -> String {
    let name = match rcode {
        0 => "NOERROR",
        1 => "FORMERR",
        2 => "SERVFAIL",
        3 => "NXDOMAIN",
        4 => "NOTIMP",
        5 => "REFUSED",
        6 => "YXDOMAIN",
        7 => "YXRRSET",
        8 => "NXRRSET",
        9 => "NOTAUTH",
        10 => "NOTZONE",
        _ => return format!("code {rcode}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests;
