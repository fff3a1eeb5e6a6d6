//! What goes over the control socket: JSON, one request a line, one reply a line.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use thiserror::Error;

use super::exit::ExitCode;
use crate::engine::model::RealServerId;

/// Of the protocol; a change that an older side would misread makes it 2.
pub const VERSION: u32 = 1;
/// The kernel takes no more.
pub const MAX_WEIGHT: u32 = i32::MAX.cast_unsigned();
/// A plan carries whole configurations.
pub const MAX_REQUEST: usize = 32 << 20;
/// Of a reply, for the client: a status of 100,000 servers fits.
pub const MAX_REPLY: u64 = 256 << 20;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    Reload,
    /// The same with conditions.
    ReloadWith {
        /// Goes back by itself unless [`Request::Confirm`] comes within this time.
        #[serde(rename = "confirm_ms", with = "millis", default, skip_serializing_if = "Option::is_none")]
        confirm: Option<Duration>,
        /// Whatever `max_removed` says.
        #[serde(default)]
        force: bool,
    },
    /// A reload that waits for it is to stay.
    Confirm,
    Status {
        /// Of a virtual server; all of them if unset.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// Something an operator wants of one real server, whatever its checks say.
    Order {
        order: Order,
        on: Subject,
        /// Reason and end of an order that stands are kept where this one has none.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        again: bool,
    },
    Weight {
        weight: OperatorWeight,
        on: Subject,
    },
    /// Why a real server is as it is.
    Why {
        on: Place,
    },
    /// Run all checks of a real server at once, and wait for their results.
    CheckNow {
        on: Place,
    },
    /// The log filter in force; with a new one it is changed until the next reload.
    LogLevel {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        filter: Option<String>,
    },
    /// What still uses a real server, as [`Load`].
    Load {
        on: Place,
    },
    /// How everything stands, and then whatever happens, as [`super::stream::Item`]s.
    Events,
    /// What the next stop of this run does with the table, whatever `on_stop` says.
    OnStop {
        what: NextStop,
    },
    /// What a reload to these sources would do. Their shape is between the one that reads the
    /// files and the one that lowers them.
    Plan {
        sources: Value,
    },
}

/// Of which real server an order speaks, and why and for how long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    #[serde(with = "address")]
    pub address: RealServerId,
    /// The one virtual server meant; every one that has the address if unset.
    #[serde(rename = "in", default, skip_serializing_if = "Option::is_none")]
    pub virtual_server: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(rename = "for_ms", with = "millis", default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Duration>,
}

/// Which real server is meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    #[serde(with = "address")]
    pub address: RealServerId,
    /// The one virtual server meant; every one that has the address if unset.
    #[serde(rename = "in", default, skip_serializing_if = "Option::is_none")]
    pub virtual_server: Option<String>,
}

/// What still uses a real server, summed over its entries in the kernel's table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// An operator's drain stands in every virtual server meant.
    pub drained: bool,
    /// All its entries have weight 0 in the kernel, as far as is known.
    pub weightless: bool,
    /// None of its entries is there.
    #[serde(default)]
    pub absent: bool,
    /// It is down, in every virtual server meant.
    #[serde(default)]
    pub down: bool,
    /// Counts the looks at the kernel: two answers with the same number know the same.
    pub looks: u64,
    /// Connections of services other than UDP.
    pub active: u64,
    pub inactive: u64,
    /// Persistence templates, of any service.
    pub persistent: u64,
    /// Entries for UDP, which last until their time-out, whether their clients are there or not.
    pub udp_flows: u64,
    /// Packets that ever came for those.
    pub udp_packets: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// In the table at weight 0.
    Drain,
    /// As if it had failed.
    Disable,
    /// Ends the other two.
    Enable,
}

/// For packages and administrators: an upgrade keeps the table, a removal does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum NextStop {
    /// The table stays, and nobody is told that services end: another run goes on at once.
    Keep,
    Withdraw,
    /// As the configuration says.
    Auto,
}

/// A number, or `"auto"`, which gives the weight back to the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "serde_json::Value", try_from = "serde_json::Value")]
pub enum OperatorWeight {
    Auto,
    /// 0 … [`MAX_WEIGHT`]
    Set(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a weight is a number from 0 to 2147483647, or auto")]
pub struct WeightError;

impl OperatorWeight {
    fn set(number: u64) -> Result<Self, WeightError> {
        u32::try_from(number).ok().filter(|n| *n <= MAX_WEIGHT).map(Self::Set).ok_or(WeightError)
    }
}

impl FromStr for OperatorWeight {
    type Err = WeightError;

    fn from_str(text: &str) -> Result<Self, WeightError> {
        match text {
            "auto" => Ok(Self::Auto),
            _ if text.bytes().all(|b| b.is_ascii_digit()) => {
                Self::set(text.parse().map_err(|_| WeightError)?)
            }
            _ => Err(WeightError),
        }
    }
}

impl TryFrom<Value> for OperatorWeight {
    type Error = WeightError;

    fn try_from(value: Value) -> Result<Self, WeightError> {
        match value {
            Value::String(text) if text == "auto" => Ok(Self::Auto),
            Value::Number(number) => Self::set(number.as_u64().ok_or(WeightError)?),
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                Err(WeightError)
            }
        }
    }
}

impl From<OperatorWeight> for Value {
    fn from(weight: OperatorWeight) -> Self {
        match weight {
            OperatorWeight::Auto => "auto".into(),
            OperatorWeight::Set(weight) => weight.into(),
        }
    }
}

/// How a request went, for people and for programs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reply {
    pub version: u32,
    /// `code` is [`ExitCode::Done`].
    pub ok: bool,
    /// What the client exits with.
    pub code: ExitCode,
    /// For people; ends without a line break.
    pub text: String,
    /// What `--json` prints, as it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
}

impl Reply {
    pub fn done(text: impl Into<String>) -> Self {
        Self::new(ExitCode::Done, text)
    }

    pub fn failed(text: impl Into<String>) -> Self {
        Self::new(ExitCode::Failed, text)
    }

    pub fn new(code: ExitCode, text: impl Into<String>) -> Self {
        Self { version: VERSION, ok: code == ExitCode::Done, code, text: text.into(), data: None }
    }

    /// Keys keep the order in which `data` serialises them.
    pub fn with_data(mut self, data: &impl Serialize) -> Result<Self, serde_json::Error> {
        self.data = Some(serde_json::value::to_raw_value(data)?);
        Ok(self)
    }
}

#[derive(Debug, Error)]
pub enum RequestError {
    #[error("protocol version {0} is not known, this is version {VERSION}")]
    Version(u32),
    #[error("the request is not understood: {0}")]
    Syntax(#[from] serde_json::Error),
}

/// The line for a request, with its line break.
pub fn encode_request(request: &Request) -> Result<Vec<u8>, serde_json::Error> {
    encode(&Envelope { version: VERSION, command: request })
}

/// What a newer client sends needs no sense here: its version is what it is told.
pub fn decode_request(line: &[u8]) -> Result<Request, RequestError> {
    match serde_json::from_slice::<Envelope<Request>>(line) {
        Ok(Envelope { version: VERSION, command }) => Ok(command),
        Ok(Envelope { version, .. }) => Err(RequestError::Version(version)),
        Err(error) => match serde_json::from_slice(line) {
            Ok(Version { version }) if version != VERSION => Err(RequestError::Version(version)),
            Ok(_) | Err(_) => Err(error.into()),
        },
    }
}

/// The line for a reply, with its line break.
pub fn encode_reply(reply: &Reply) -> Result<Vec<u8>, serde_json::Error> {
    encode(reply)
}

fn encode(value: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<T> {
    version: u32,
    command: T,
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// What names a real server. Port 0 stands for one that is configured without, where others of its address have theirs.
///
/// `198.51.100.11:80`, `[2001:db8::1]:80`, `198.51.100.11`, `2001:db8::1`, `[2001:db8::1]`
pub fn parse_address(text: &str) -> Result<RealServerId, String> {
    let with_port =
        text.parse::<SocketAddr>().map(|a| RealServerId { address: a.ip(), port: Some(a.port()) });
    let bare = || text.parse::<IpAddr>();
    let bracketed =
        || text.strip_prefix('[')?.strip_suffix(']')?.parse::<IpAddr>().ok().filter(IpAddr::is_ipv6);
    let portless = |address| RealServerId { address, port: None };
    let id = with_port.ok().or_else(|| bare().ok().map(portless)).or_else(|| bracketed().map(portless));
    match id {
        Some(id) => Ok(id),
        None => {
            Err("an address is written 198.51.100.11:80 or [2001:db8::1]:80, the port as configured"
                .to_owned())
        }
    }
}

mod address {
    use super::{Deserialize, Deserializer, RealServerId, Serializer, parse_address};

    pub(super) fn serialize<S: Serializer>(id: &RealServerId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(id)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RealServerId, D::Error> {
        parse_address(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Whole milliseconds.
mod millis {
    use super::{Deserialize, Deserializer, Duration, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        duration.map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}

#[cfg(test)]
mod tests;
