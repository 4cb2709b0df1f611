//! The client address of a request. Keys are a security control: a client that can choose its key has no limit.
//!
//! `X-Forwarded-For` is trusted only as far as trusted proxies have written it. An IPv6 client has at least a whole /64, so
//! that is what is counted. [`HiddenKeys`] keeps raw addresses out of the store.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use hmac::{Hmac, KeyInit, Mac};
use keystead_core::{Code, Error, Result};
use sha2::Sha256;

use crate::bounds::{FORWARDED_MAX, SECRET_BYTES_MIN};

/// Which part of `X-Forwarded-For` is trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Nothing: the client is the peer of the connection.
    Nobody,
    /// This many proxies are in front of the server, each of which appends the address of its peer. A shorter list has not passed
    /// through all of them and is not trusted.
    Hops(usize),
    /// The proxies in these networks. The client is the first address from the right that is not one of them.
    Proxies(Vec<Network>),
}

/// Finds the client address of a request.
///
/// ```
/// use keystead_limit::{ClientAddress, Trust};
///
/// let peer = "10.0.0.7".parse().unwrap();
/// let forwarded = ["6.6.6.6, 203.0.113.9"];
/// assert_eq!(ClientAddress::new(Trust::Nobody).key(peer, forwarded), "10.0.0.7");
/// assert_eq!(ClientAddress::new(Trust::Hops(1)).key(peer, forwarded), "203.0.113.9");
/// let proxies = Trust::Proxies(vec!["10.0.0.0/8".parse()?]);
/// assert_eq!(ClientAddress::new(proxies).key(peer, forwarded), "203.0.113.9");
///
/// let peer = "2001:db8:1:2:3:4:5:6".parse().unwrap();
/// assert_eq!(ClientAddress::new(Trust::Nobody).key(peer, []), "2001:db8:1:2::/64");
/// # Ok::<(), keystead_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClientAddress {
    trust: Trust,
    ipv6_prefix: u8,
}

impl ClientAddress {
    /// Trusts `X-Forwarded-For` as far as `trust` says, and counts IPv6 clients by their /64.
    #[must_use]
    pub fn new(trust: Trust) -> Self {
        ClientAddress { trust, ipv6_prefix: 64 }
    }

    /// Counts IPv6 clients by another prefix, for example 56.
    ///
    /// # Errors
    /// `config_invalid` when it is not from 16 to 128.
    pub fn ipv6_prefix(mut self, bits: u8) -> Result<Self> {
        if !(16..=128).contains(&bits) {
            return Err(Error::new(
                Code::ConfigInvalid,
                format!("the IPv6 prefix must be from 16 to 128 bits, not {bits}"),
            ));
        }
        self.ipv6_prefix = bits;
        Ok(self)
    }

    /// The key of the client: its address, or the network of an IPv6 address. `peer` is the peer of the connection, `forwarded` the
    /// values of `X-Forwarded-For` in their order.
    pub fn key<'a>(&self, peer: IpAddr, forwarded: impl IntoIterator<Item = &'a str>) -> String {
        match self.address(peer, forwarded) {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => {
                let bits = u32::from(self.ipv6_prefix);
                let network = u128::from(address) & (u128::MAX << (128 - bits));
                format!("{}/{bits}", Ipv6Addr::from(network))
            }
        }
    }

    /// The address of the client.
    pub fn address<'a>(&self, peer: IpAddr, forwarded: impl IntoIterator<Item = &'a str>) -> IpAddr {
        let peer = peer.to_canonical();
        let proxies = match &self.trust {
            Trust::Nobody | Trust::Hops(0) => return peer,
            Trust::Hops(hops) => {
                let list = entries(forwarded);
                let entry = list.len().checked_sub(*hops).and_then(|place| parse_entry(list[place]));
                return entry.unwrap_or(peer);
            }
            Trust::Proxies(proxies) => proxies,
        };
        let mut client = peer;
        for entry in entries(forwarded).into_iter().rev().take(FORWARDED_MAX) {
            if !proxies.iter().any(|network| network.contains(client)) {
                break;
            }
            // An entry of a trusted proxy that is no address (`unknown`) ends the chain: no entry before it can be trusted.
            let Some(address) = parse_entry(entry) else { break };
            client = address;
        }
        client
    }
}

fn entries<'a>(forwarded: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    forwarded
        .into_iter()
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|e| !e.is_empty())
        .collect()
}

/// An address with or without a port, IPv6 with or without brackets.
fn parse_entry(entry: &str) -> Option<IpAddr> {
    let entry = entry.trim_matches('"');
    let bare = entry.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(entry);
    let address = bare.parse().ok().or_else(|| entry.parse::<SocketAddr>().ok().map(|address| address.ip()));
    address.map(|address: IpAddr| address.to_canonical())
}

/// A network in CIDR form, for example `10.0.0.0/8`; a single address is a network of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// Whether an address is in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let shift = 32 - u32::from(self.bits);
                u64::from(u32::from(network)) >> shift == u64::from(u32::from(address)) >> shift
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                self.bits == 0
                    || (u128::from(network) ^ u128::from(address)) >> (128 - u32::from(self.bits)) == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let fail = || {
            Error::new(
                Code::ConfigInvalid,
                format!("'{text}' is not a network (write for example 10.0.0.0/8)"),
            )
        };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().map_err(|_| fail())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| fail())?;
        let max = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(max);
        if bits > max {
            return Err(fail());
        }
        // Addresses are compared in canonical form, so a network of IPv4-mapped addresses becomes an IPv4 network.
        match address.to_canonical() {
            short if short.is_ipv4() && address.is_ipv6() => {
                Ok(Network { address: short, bits: bits.checked_sub(96).ok_or_else(fail)? })
            }
            _ => Ok(Network { address, bits }),
        }
    }
}

/// Keeps keys secret: the store holds HMAC-SHA-256 of a key, truncated to 128 bits. Without the secret the address cannot be
/// found, not even by trying all of them.
#[derive(Clone)]
pub struct HiddenKeys {
    hmac: Hmac<Sha256>,
}

impl HiddenKeys {
    /// Hashes keys with this secret. All processes that share a limit need the same one.
    ///
    /// # Errors
    /// `config_invalid` when it is shorter than 16 bytes.
    pub fn new(secret: impl AsRef<[u8]>) -> Result<Self> {
        let secret = secret.as_ref();
        let too_short = || {
            let len = secret.len();
            let message =
                format!("the secret for hidden keys needs at least {SECRET_BYTES_MIN} bytes, not {len}");
            Error::new(Code::ConfigInvalid, message)
        };
        if secret.len() < SECRET_BYTES_MIN {
            return Err(too_short());
        }
        let hmac = Hmac::new_from_slice(secret).map_err(|_| too_short())?;
        Ok(HiddenKeys { hmac })
    }

    /// The hash of `key` that is stored: 32 hexadecimal digits.
    #[must_use]
    pub fn hide(&self, key: &[u8]) -> [u8; 32] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut hmac = self.hmac.clone();
        hmac.update(key);
        let tag = hmac.finalize().into_bytes();
        let mut text = [0; 32];
        for (place, byte) in tag.iter().take(16).enumerate() {
            text[2 * place] = DIGITS[usize::from(byte >> 4)];
            text[2 * place + 1] = DIGITS[usize::from(byte & 15)];
        }
        text
    }
}

impl fmt::Debug for HiddenKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HiddenKeys(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn proxies(networks: &[&str]) -> ClientAddress {
        ClientAddress::new(Trust::Proxies(networks.iter().map(|n| n.parse().unwrap()).collect()))
    }

    #[test]
    fn without_a_rule_nothing_is_trusted() {
        let nobody = ClientAddress::new(Trust::Nobody);
        assert_eq!(nobody.key(ip("192.0.2.1"), ["1.1.1.1", "2.2.2.2"]), "192.0.2.1");
        assert_eq!(
            nobody.key(ip("::ffff:192.0.2.1"), []),
            "192.0.2.1",
            "the same client in another spelling"
        );
    }

    #[test]
    fn hops_are_counted_from_the_right() {
        let hops = |n| ClientAddress::new(Trust::Hops(n));
        let peer = ip("10.0.0.1");
        assert_eq!(hops(1).key(peer, ["6.6.6.6, 203.0.113.5"]), "203.0.113.5");
        assert_eq!(hops(2).key(peer, ["6.6.6.6, 203.0.113.5, 10.0.0.9"]), "203.0.113.5");
        assert_eq!(
            hops(2).key(peer, ["6.6.6.6, 203.0.113.5", "10.0.0.9"]),
            "203.0.113.5",
            "two lines are one list"
        );
        assert_eq!(hops(2).key(peer, ["203.0.113.5"]), "10.0.0.1", "it did not come through both");
        assert_eq!(hops(1).key(peer, ["unknown"]), "10.0.0.1");
        assert_eq!(hops(1).key(peer, []), "10.0.0.1");
        assert_eq!(hops(usize::MAX).key(peer, ["1.1.1.1"]), "10.0.0.1");
    }

    #[test]
    fn networks_are_walked_from_the_right() {
        let trusted = proxies(&["10.0.0.0/8", "2001:db8::/32"]);
        let forged = "6.6.6.6, 203.0.113.5, 10.1.1.1";
        assert_eq!(trusted.key(ip("10.0.0.1"), [forged]), "203.0.113.5");
        assert_eq!(
            trusted.key(ip("192.0.2.1"), [forged]),
            "192.0.2.1",
            "not one of ours: what it says is nothing"
        );
        assert_eq!(trusted.key(ip("2001:db8::1"), ["203.0.113.5:4711"]), "203.0.113.5");
        assert_eq!(trusted.key(ip("10.0.0.1"), ["[2001:db9::5]:80"]), "2001:db9::/64");
        assert_eq!(trusted.key(ip("10.0.0.1"), ["203.0.113.5, unknown, 10.1.1.1"]), "10.1.1.1");
        assert_eq!(trusted.key(ip("10.0.0.1"), ["10.2.2.2, 10.1.1.1"]), "10.2.2.2", "all are ours");
    }

    #[test]
    fn ipv6_is_counted_by_its_network() {
        let whole = ClientAddress::new(Trust::Nobody);
        assert_eq!(whole.key(ip("2001:db8:85a3:8d3:1319:8a2e:370:7348"), []), "2001:db8:85a3:8d3::/64");
        let wide = whole.clone().ipv6_prefix(48).unwrap();
        assert_eq!(wide.key(ip("2001:db8:85a3:8d3:1319:8a2e:370:7348"), []), "2001:db8:85a3::/48");
        assert_eq!(whole.clone().ipv6_prefix(128).unwrap().key(ip("2001:db8::1"), []), "2001:db8::1/128");
        assert_eq!(whole.ipv6_prefix(0).unwrap_err().code(), Code::ConfigInvalid);
    }

    #[test]
    fn networks_are_parsed_or_rejected() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.1.1", "11.0.0.1"),
            ("192.0.2.1", "192.0.2.1", "192.0.2.2"),
            ("0.0.0.0/0", "8.8.8.8", "::1"),
            ("::/0", "::1", "8.8.8.8"),
            ("2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::1"),
            ("::ffff:10.0.0.0/104", "10.1.1.1", "11.0.0.1"),
        ] {
            let network: Network = network.parse().unwrap();
            assert!(network.contains(ip(inside)) && !network.contains(ip(outside)), "{network:?}");
        }
        assert!("10.0.0.0/8".parse::<Network>().unwrap().contains(ip("::ffff:10.1.1.1")));
        for text in
            ["", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/x", "10.0.0.0/-1", "::ffff:10.0.0.0/8"]
        {
            assert_eq!(text.parse::<Network>().unwrap_err().code(), Code::ConfigInvalid, "{text}");
        }
    }

    #[test]
    fn hidden_keys_are_hmac_sha_256() {
        assert_eq!(HiddenKeys::new("short").unwrap_err().code(), Code::ConfigInvalid);
        // RFC 4231, test case 1: a secret of twenty 0x0b and the words "Hi There".
        let hidden = HiddenKeys::new([0x0b; 20]).unwrap();
        assert_eq!(&hidden.hide(b"Hi There"), b"b0344c61d8db38535ca8afceaf0bf12b");
        assert_eq!(format!("{hidden:?}"), "HiddenKeys(..)");
    }
}
