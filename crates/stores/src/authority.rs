//! The parts of a server's URL: a login, addresses and a path. Pure.

use keystead_core::Result;

use crate::net::Address;
use crate::url::Url;

/// `//user:password@host:port,host:port/path`.
pub struct Authority {
    /// The user name, decoded.
    pub username: Option<String>,
    /// The password, decoded.
    pub password: Option<String>,
    /// At least one address.
    pub addresses: Vec<Address>,
    /// What follows the first slash, or nothing.
    pub path: String,
}

impl Authority {
    /// The parts of a URL.
    ///
    /// # Errors
    /// `config_invalid` with the form of the URL.
    pub fn of(url: &Url<'_>, default_port: u16) -> Result<Authority> {
        let rest = url.path.strip_prefix("//").ok_or_else(|| url.bad("the address is missing"))?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (user, hosts),
            None => ("", authority),
        };
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        let addresses = hosts.split(',').map(|host| Address::parse(host, default_port));
        let addresses = addresses.collect::<Option<Vec<_>>>();
        Ok(Authority {
            username: decoded(url, name)?,
            password: decoded(url, password)?,
            addresses: addresses.ok_or_else(|| url.bad("the address is not host:port"))?,
            path: decoded(url, path)?.unwrap_or_default(),
        })
    }
}

/// The text of a percent-encoded part; `None` if it is empty.
pub(crate) fn decoded(url: &Url<'_>, text: &str) -> Result<Option<String>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let hex = rest.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let value = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(value.ok_or_else(|| url.bad("a % in the user name, password or path is written %25"))?);
        rest = &rest[2..];
    }
    let text = String::from_utf8(bytes).map_err(|_| url.bad("the user name or password is not UTF-8"))?;
    Ok((!text.is_empty()).then_some(text))
}
