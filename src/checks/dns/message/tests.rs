//! Replies made by the library and by hand, good and hostile.

use std::net::{Ipv4Addr, Ipv6Addr};

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::Record;
use hickory_proto::rr::rdata::{A, AAAA, CNAME, MX, TXT};
use proptest::prelude::*;

use super::*;

const ID: u16 = 0xbeef;

fn question() -> Question {
    Question::new("www.example.org.", 1).unwrap()
}

fn name(text: &str) -> Name {
    Name::from_ascii(text).unwrap()
}

/// The reply to that question, with these answers.
fn message(answers: Vec<RData>) -> Message {
    let mut message = Message::new(ID, MessageType::Response, OpCode::Query);
    message.add_query(Query::query(name("WWW.example.ORG."), RecordType::A));
    let record = |data| Record::from_rdata(name("www.example.org."), 60, data);
    message.add_answers(answers.into_iter().map(record));
    message
}

fn read(message: &Message) -> Result<Reply, String> {
    question().read_reply(ID, &message.to_vec().unwrap())
}

#[test]
fn queries_on_the_wire() {
    let head = b"\xbe\xef\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00";
    let cases: [(&str, u16, &[u8]); 5] = [
        (".", 6, b"\0\0\x06\0\x01"),
        ("example.org.", 1, b"\x07example\x03org\0\0\x01\0\x01"),
        ("_sip._udp.example.org.", 33, b"\x04_sip\x04_udp\x07example\x03org\0\0\x21\0\x01"),
        ("*.example.org.", 16, b"\x01*\x07example\x03org\0\0\x10\0\x01"),
        ("example.org.", 65_280, b"\x07example\x03org\0\xff\0\0\x01"),
    ];
    for (name, record_type, wanted) in cases {
        let query = Question::new(name, record_type).unwrap().query(ID).unwrap();
        assert_eq!(query, [&head[..], wanted].concat(), "{name}");
    }
}

#[test]
fn the_longest_names_can_be_asked_for() {
    let label = "a".repeat(63);
    let longest = format!("{label}.{label}.{label}.{}.", "b".repeat(61));
    assert_eq!(Question::new(&longest, 1).unwrap().query(ID).unwrap().len(), 12 + 255 + 4);
    assert!(Question::new(&format!("c{longest}"), 1).is_err());
}

#[test]
fn what_is_not_our_reply() {
    let good = message(Vec::new());
    assert!(read(&good).is_ok());
    let mut other = good.clone();
    other.metadata.id = ID + 1;
    assert_eq!(read(&other).unwrap_err(), "the id is not that of the query");
    let mut other = good.clone();
    other.metadata.message_type = MessageType::Query;
    assert_eq!(read(&other).unwrap_err(), "not a response to a query");
    for (name_, kind) in [("example.org.", RecordType::A), ("www.example.org.", RecordType::AAAA)] {
        let mut other = good.clone();
        other.queries = vec![Query::query(name(name_), kind)];
        assert_eq!(read(&other).unwrap_err(), "the question in it is not ours");
    }
    let mut other = good.clone();
    other.queries = Vec::new();
    assert_eq!(read(&other).unwrap_err(), "the question in it is not ours");
    other.metadata.response_code = ResponseCode::FormErr;
    assert_eq!(read(&other).unwrap().rcode, 1);
}

#[test]
fn what_is_among_the_answers() {
    let reply = read(&message(vec![
        RData::A(A(Ipv4Addr::new(203, 0, 113, 80))),
        RData::AAAA(AAAA("2001:db8::1".parse::<Ipv6Addr>().unwrap())),
        RData::CNAME(CNAME(name("Web.Example.org."))),
        RData::MX(MX::new(10, name("mail.example.org."))),
        RData::TXT(TXT::new(vec!["v=spf1 ".to_owned(), "-all".to_owned()])),
    ]))
    .unwrap();
    assert_eq!(reply.answers(), 5);
    let there = [
        "203.0.113.80",
        "2001:db8::1",
        "web.example.org",
        "WEB.example.org.",
        "mail.example.org",
        "10 mail.example.org.",
        "v=spf1 -all",
    ];
    for wanted in there {
        assert!(reply.has(wanted), "{wanted}");
    }
    for wanted in ["203.0.113.8", "2001:db8::", "example.org", "v=spf1", "V=SPF1 -ALL", "10", ""] {
        assert!(!reply.has(wanted), "{wanted}");
    }
}

#[test]
fn hostile_messages() {
    let header = |counts: [u8; 8]| [&[0xbe, 0xef, 0x81, 0x80][..], &counts].concat();
    let question = b"\x03www\x07example\x03org\0\0\x01\0\x01";
    let loops: [&[u8]; 4] = [b"\xc0\x0c", b"\x01a\xc0\x0c", b"\xc0\xff", b"\x40a"];
    for name in loops {
        let bytes = [&header([0, 1, 0, 0, 0, 0, 0, 0])[..], name, b"\0\x01\0\x01"].concat();
        assert!(self::question().read_reply(ID, &bytes).is_err(), "{name:?}");
    }
    // Answers that are announced and not there; a length beyond the end.
    let bytes = [&header([0, 1, 0xff, 0xff, 0, 0, 0, 0])[..], question].concat();
    assert!(self::question().read_reply(ID, &bytes).is_err());
    let record = b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\xff\xff\x01";
    let bytes = [&header([0, 1, 0, 1, 0, 0, 0, 0])[..], question, record].concat();
    assert!(self::question().read_reply(ID, &bytes).is_err());
}

proptest! {
    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(reply) = question().read_reply(ID, &bytes) {
            reply.has("x");
            reply.answers_as_text();
        }
    }

    /// A good reply with some bytes turned and its end cut off.
    #[test]
    fn broken_replies(changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..6), cut in any::<usize>()) {
        let mut bytes = message(vec![
            RData::A(A(Ipv4Addr::new(203, 0, 113, 80))),
            RData::MX(MX::new(10, name("mail.example.org."))),
            RData::TXT(TXT::new(vec!["text".to_owned()])),
        ]).to_vec().unwrap();
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        bytes.truncate(bytes.len() - cut % 8);
        if let Ok(reply) = question().read_reply(ID, &bytes) {
            reply.has("203.0.113.80");
            reply.answers_as_text();
        }
    }
}
