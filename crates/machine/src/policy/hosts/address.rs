//! What kind of place an address is.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Who can be behind an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Realm {
    /// Anybody on the internet.
    Public,
    /// This machine.
    Loopback,
    /// A network that this machine is in, carriers' shared space included.
    Private,
    /// A direct neighbour. Machines in a cloud find the keys of their account there.
    LinkLocal,
    /// Multicast, unspecified, reserved, for documents, or another address in disguise.
    Special,
}

impl Realm {
    /// The realm of an address, by the registries of special-purpose addresses.
    pub fn of(address: IpAddr) -> Realm {
        match address {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => of_v6(address),
        }
    }

    /// A few words for a person.
    pub fn describe(self) -> &'static str {
        match self {
            Realm::Public => "a public address",
            Realm::Loopback => "an address of this machine",
            Realm::Private => "an address of a private network",
            Realm::LinkLocal => "a link-local address",
            Realm::Special => "a special address",
        }
    }
}

fn of_v4(address: Ipv4Addr) -> Realm {
    match address.octets() {
        [127, ..] => Realm::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => Realm::Private,
        [169, 254, ..] => Realm::LinkLocal,
        [0 | 224..=255, ..]
        | [192, 0, 0 | 2, _]
        | [192, 88, 99, _]
        | [198, 18 | 19, ..]
        | [198, 51, 100, _]
        | [203, 0, 113, _] => Realm::Special,
        _ => Realm::Public,
    }
}

fn of_v6(address: Ipv6Addr) -> Realm {
    if address == Ipv6Addr::LOCALHOST {
        return Realm::Loopback;
    }
    match address.segments() {
        // The well-known prefix of translators: the last four bytes say where it really goes.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            let [a, b] = high.to_be_bytes();
            let [c, d] = low.to_be_bytes();
            match of_v4(Ipv4Addr::new(a, b, c, d)) {
                Realm::Public => Realm::Public,
                Realm::Loopback | Realm::Private | Realm::LinkLocal | Realm::Special => {
                    Realm::Special
                }
            }
        }
        [0xfc00..=0xfdff, ..] => Realm::Private,
        [0xfe80..=0xfebf, ..] => Realm::LinkLocal,
        // Protocol assignments with tunnels, tunnels over IPv4, and the two ranges for documents.
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x2002, ..] | [0x3fff, 0..=0xfff, ..] => {
            Realm::Special
        }
        [0x2000..=0x3fff, ..] => Realm::Public,
        _ => Realm::Special,
    }
}
