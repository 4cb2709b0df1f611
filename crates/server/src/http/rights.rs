//! Authorisation: tokens, hosts, and pages of other sites. Pure.
//!
//! Without a token every client on this machine may do everything, and a browser on it lets pages of any site send requests. A page
//! whose name resolves to this machine (DNS rebinding) may even read the responses. But it cannot send another `Host` than its own,
//! so without a token the `Host` of every request must be this machine.

use std::borrow::Cow;
use std::net::IpAddr;

use hyper::Uri;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use keystead_core::Millis;

use keystead_http_api::rights::bearer;

use crate::bounds::HOST_SHOWN_BYTES;
use crate::settings::Settings;
use crate::settings::value::is_host_name;
use crate::sync_token::{self, Invalid, Scope};

pub use keystead_commands::ctx::Rights;

/// Why a request is not authorised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthError {
    /// It has no token, or one without the right.
    MissingToken,
    /// It has a token that is not one of the server's.
    WrongToken,
    /// It has a token of an offline client that has expired.
    ExpiredToken,
    /// It was sent by a page of another site, and the server has no token.
    ForeignPage,
}

/// The rights of a request. The token in the header is used; one in another place only where there is no header.
///
/// # Errors
/// When it is not authorised.
pub(crate) fn of(
    settings: &Settings,
    headers: &HeaderMap,
    elsewhere: impl FnOnce() -> Option<Vec<u8>>,
) -> Result<Rights, AuthError> {
    let Some(token) = &settings.token else {
        // Any site that is open in a browser can send requests to a server on this machine.
        return if is_foreign_page(headers) { Err(AuthError::ForeignPage) } else { Ok(Rights::All) };
    };
    let offered = match headers.get(AUTHORIZATION) {
        Some(value) => bearer(value).map(Cow::Borrowed),
        None => elsewhere().map(Cow::Owned),
    };
    let Some(offered) = offered else { return Err(AuthError::MissingToken) };
    // Both are compared, so that the time does not reveal which of them it might be.
    let may_read = settings.read_only_token.as_ref().is_some_and(|token| token.matches(&offered));
    match (token.matches(&offered), may_read) {
        (true, _) => Ok(Rights::All),
        (_, true) => Ok(Rights::ReadOnly),
        _ => Err(AuthError::WrongToken),
    }
}

/// The rights of a request of offline sync: as [`of`], or with a token that the server's secret signed, and what that allows.
///
/// # Errors
/// When it is not authorised.
pub(crate) fn of_sync(
    settings: &Settings,
    headers: &HeaderMap,
    now: Millis,
    elsewhere: impl FnOnce() -> Option<Vec<u8>>,
) -> Result<(Rights, Option<Scope>), AuthError> {
    let offered = match headers.get(AUTHORIZATION) {
        Some(value) => bearer(value).map(<[u8]>::to_vec),
        None => elsewhere(),
    };
    match offered {
        Some(offered) if sync_token::is_one(&offered) => {
            let secret = settings.sync_secret.as_ref().ok_or(AuthError::WrongToken)?;
            match secret.open(&offered, now) {
                Ok(scope) => Ok((Rights::All, Some(scope))),
                Err(Invalid::Expired) => Err(AuthError::ExpiredToken),
                Err(Invalid::Forged) => Err(AuthError::WrongToken),
            }
        }
        offered => of(settings, headers, || offered).map(|rights| (rights, None)),
    }
}

/// Whether a server without a token may serve the request: every host that it names is this machine, the local address `at` of the
/// connection, or a name that the settings allow.
///
/// # Errors
/// The host that is none of these; empty where the request names no host.
pub(crate) fn check_host(
    settings: &Settings,
    at: IpAddr,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<(), String> {
    if settings.token.is_some() {
        return Ok(());
    }
    let is_ours = |authority: &str| {
        is_local(authority)
            || host_of(authority).is_some_and(|host| {
                settings.allowed_hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(host))
                    || host.parse().is_ok_and(|ip: IpAddr| ip.to_canonical() == at.to_canonical())
            })
    };
    let check = |authority: &[u8]| match std::str::from_utf8(authority).is_ok_and(is_ours) {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(authority).into_owned()),
    };
    let mut hosts = headers.get_all(HOST).iter();
    check(hosts.next().map_or(&b""[..], HeaderValue::as_bytes))?;
    // The request line counts as much as the header.
    uri.authority().map_or(Ok(()), |authority| check(authority.as_str().as_bytes()))?;
    hosts.try_for_each(|host| check(host.as_bytes()))
}

/// The part of a host that messages show.
pub(super) fn shown(host: &str) -> &str {
    &host[..host.floor_char_boundary(HOST_SHOWN_BYTES)]
}

/// The message when [`check_host`] fails.
pub(super) fn foreign_host(host: &str) -> String {
    let name = host_of(host).filter(|name| is_host_name(name)).unwrap_or("NAME");
    format!(
        "a server without a token only serves requests for localhost, 127.0.0.1 or [::1], not for the host '{}': \
         set a token, for example KEYSTEAD_TOKEN=$(openssl rand -hex 32), or allow the host: --allowed-hosts {name}",
        shown(host)
    )
}

/// Whether the request was sent by a page that is not from this machine, as far as browsers say so. A request for an image has no
/// `Origin`, but it has `Sec-Fetch-Site`.
fn is_foreign_page(headers: &HeaderMap) -> bool {
    const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
    if let Some(origin) = headers.get(ORIGIN) {
        let authority = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
        return !authority.is_some_and(|(_, authority)| is_local(authority));
    }
    headers.get(SITE).is_some_and(|site| site == "cross-site")
}

/// The host of `HOST`, `HOST:PORT` or `[IPV6]:PORT`, without brackets; nothing for any other text.
fn host_of(authority: &str) -> Option<&str> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(ipv6) => ipv6.split_once(']')?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let is_port =
        |rest: &str| rest.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()));
    // A name may end with the dot of the root.
    (rest.is_empty() || is_port(rest)).then(|| host.strip_suffix('.').unwrap_or(host))
}

/// Whether a host, with or without a port, is this machine. For browsers, subdomains of `localhost` are, too.
fn is_local(authority: &str) -> bool {
    const LOCALHOST: &str = "localhost";
    let Some(host) = host_of(authority) else { return false };
    let last = host.rsplit('.').next().unwrap_or_default();
    last.eq_ignore_ascii_case(LOCALHOST)
        || host.parse().is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Token;

    fn settings(token: Option<&str>, read_only: Option<&str>) -> Settings {
        let mut settings = crate::settings::Loaded::from_sources(Default::default()).unwrap().settings;
        settings.token = token.map(|token| Token::parse(token).unwrap());
        settings.read_only_token = read_only.map(|token| Token::parse(token).unwrap());
        settings
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v))).collect()
    }

    #[test]
    fn only_the_right_token_in_the_right_scheme_is_let_in() {
        let settings = settings(Some("s3cret"), Some("look"));
        for (header, rights) in [
            ("Bearer s3cret", Ok(Rights::All)),
            ("bearer s3cret", Ok(Rights::All)),
            ("BEARER look", Ok(Rights::ReadOnly)),
            ("Bearer  s3cret", Err(AuthError::WrongToken)),
            ("Bearer s3cret ", Err(AuthError::WrongToken)),
            ("Bearer", Err(AuthError::MissingToken)),
            ("Bearer ", Err(AuthError::WrongToken)),
            ("Basic s3cret", Err(AuthError::MissingToken)),
            ("s3cret", Err(AuthError::MissingToken)),
            ("", Err(AuthError::MissingToken)),
        ] {
            assert_eq!(of(&settings, &headers(&[("authorization", header)]), || None), rights, "{header:?}");
        }
        assert_eq!(of(&settings, &HeaderMap::new(), || None), Err(AuthError::MissingToken));
    }

    #[test]
    fn a_token_elsewhere_counts_only_without_the_header() {
        let settings = settings(Some("s3cret"), None);
        let there = || Some(b"s3cret".to_vec());
        assert_eq!(of(&settings, &HeaderMap::new(), there), Ok(Rights::All));
        assert_eq!(
            of(&settings, &headers(&[("authorization", "Bearer x")]), there),
            Err(AuthError::WrongToken)
        );
    }

    #[test]
    fn pages_of_other_sites_need_a_token() {
        let open = settings(None, None);
        for (name, value, rights) in [
            ("origin", "http://localhost:3000", Ok(Rights::All)),
            ("origin", "http://127.0.0.1", Ok(Rights::All)),
            ("origin", "https://[::1]:8080", Ok(Rights::All)),
            ("origin", "http://app.localhost:1", Ok(Rights::All)),
            ("origin", "https://example.com", Err(AuthError::ForeignPage)),
            ("origin", "https://localhost.example.com", Err(AuthError::ForeignPage)),
            ("origin", "https://127.0.0.1.example.com", Err(AuthError::ForeignPage)),
            ("origin", "null", Err(AuthError::ForeignPage)),
            ("sec-fetch-site", "cross-site", Err(AuthError::ForeignPage)),
            ("sec-fetch-site", "same-origin", Ok(Rights::All)),
            ("sec-fetch-site", "none", Ok(Rights::All)),
        ] {
            assert_eq!(of(&open, &headers(&[(name, value)]), || None), rights, "{name}: {value}");
        }
        let locked = settings(Some("s3cret"), None);
        let page = headers(&[("origin", "https://example.com"), ("authorization", "Bearer s3cret")]);
        assert_eq!(of(&locked, &page, || None), Ok(Rights::All));
    }
    fn host(settings: &Settings, target: &'static str, hosts: &[&'static str]) -> Result<(), String> {
        let pairs: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
        let mut all = HeaderMap::new();
        for (name, value) in pairs {
            all.append(name, HeaderValue::from_static(value));
        }
        check_host(settings, "127.0.0.1".parse().unwrap(), &Uri::from_static(target), &all)
    }

    #[test]
    fn without_a_token_only_hosts_of_this_machine_are_accepted() {
        let mut open = settings(None, None);
        for name in [
            "localhost",
            "LocalHost:8080",
            "localhost.:8080",
            "app.localhost",
            "127.0.0.1:8080",
            "127.9.9.9",
            "[::1]:8080",
            "[::ffff:127.0.0.1]",
        ] {
            assert_eq!(host(&open, "/", &[name]), Ok(()), "{name}");
        }
        for name in [
            "",
            "k",
            "evil.example:8080",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "notlocalhost",
            "localhost:80@evil.example",
            "localhost:8080/",
            "[::1",
            "[::1]evil",
            "0.0.0.0",
            "192.168.1.2",
            "db",
        ] {
            assert_eq!(host(&open, "/", &[name]), Err(name.to_owned()));
        }
        assert_eq!(host(&open, "/", &[]), Err(String::new()), "there must be one");
        assert!(host(&open, "/", &["localhost", "evil.example"]).is_err(), "all of them count");
        assert!(host(&open, "http://evil.example/", &["localhost"]).is_err(), "the first line, too");
        assert!(host(&open, "http://127.0.0.1:8080/", &["localhost"]).is_ok());
        open.allowed_hosts = vec!["db".to_owned()];
        assert_eq!(host(&open, "/", &["DB:8080"]), Ok(()));
        assert!(host(&open, "/", &["db.evil.example"]).is_err());
        assert_eq!(host(&settings(Some("s3cret"), None), "/", &["evil.example"]), Ok(()));
    }

    #[test]
    fn the_error_for_a_host_says_what_to_do() {
        let words = foreign_host("keystead:8080");
        assert!(words.contains("'keystead:8080'") && words.ends_with("--allowed-hosts keystead"), "{words}");
        let words = foreign_host(&"é".repeat(1000));
        assert!(words.len() < 500 && words.ends_with("--allowed-hosts NAME"), "{words}");
    }
}
