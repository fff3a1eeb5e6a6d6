//! The addresses of this host: which there are, on which interfaces, and when that changes.
//!
//! Owns the rtnetlink side of addresses and links. Always whole pictures: an event says no more than
//! that it is time to look again, so that neither a lost event nor a repeated one can make a
//! difference (keepalived counts events, and is wrong for ever after one too many). Decides nothing.

mod codec;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod reader;
mod socket;
mod watcher;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

pub use codec::Malformed;
pub use reader::{ReadError, Reader};
pub use watcher::{Watcher, spawn_watcher};
pub use writer::{WriteError, Writer};

/// All addresses and interfaces of this network name space, as one dump found them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picture {
    /// In the order of address, then interface.
    pub addresses: BTreeSet<Address>,
    /// By index.
    pub interfaces: BTreeMap<u32, Interface>,
}

/// One address on one interface. The same address may be on several.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    pub address: IpAddr,
    /// Index of its interface, which is in [`Picture::interfaces`].
    pub index: u32,
    /// Name of that interface.
    pub interface: String,
    /// Length of the prefix in bits.
    pub prefix: u8,
    pub flags: AddressFlags,
}

/// `IFA_F_*`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddressFlags(u32);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    pub index: u32,
    pub name: String,
    /// `IFF_UP`: switched on. Says nothing about a cable.
    pub up: bool,
    /// `IFF_LOOPBACK`
    pub loopback: bool,
}

impl AddressFlags {
    /// `IFA_F_DADFAILED`: another host has the address.
    const DAD_FAILED: u32 = 0x08;
    /// `IFA_F_TENTATIVE`: nobody knows yet whether another host has it.
    const TENTATIVE: u32 = 0x40;

    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The host may use the address: for IPv6, no other host turned out to have it.
    pub const fn is_usable(self) -> bool {
        self.0 & (Self::DAD_FAILED | Self::TENTATIVE) == 0
    }
}

impl Picture {
    /// The addresses that the kernel takes packets for: usable ones on interfaces that are up. Those of an
    /// interface that is down stay on it but are not in the table of local routes.
    pub fn local(&self) -> impl Iterator<Item = (&Address, &Interface)> {
        let on = |address: &Address| self.interfaces.get(&address.index);
        self.addresses
            .iter()
            .filter(|address| address.flags.is_usable())
            .filter_map(move |address| on(address).map(|interface| (address, interface)))
            .filter(|(_, interface)| interface.up)
    }

    /// The interface of this name.
    pub fn interface(&self, name: &str) -> Option<&Interface> {
        self.interfaces.values().find(|interface| interface.name == name)
    }
}
