//! Who may do what: tokens, and pages of other sites. Pure.

use std::borrow::Cow;
use std::net::IpAddr;

use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, USER_AGENT};

pub use keystead_commands::ctx::Rights;

use crate::settings::Settings;

/// Why a request is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stranger {
    /// It brought no token, or another one.
    Token,
    /// It comes from a page of another site, and no token protects the server.
    Page,
}

/// The rights of a request. The header counts; only where there is none does a token elsewhere.
///
/// # Errors
/// When it has none.
pub(super) fn of(
    settings: &Settings,
    headers: &HeaderMap,
    elsewhere: impl FnOnce() -> Option<Vec<u8>>,
) -> Result<Rights, Stranger> {
    let Some(token) = &settings.token else {
        // Any site that somebody looks at can send requests to a server on this machine.
        return if is_foreign_page(headers) { Err(Stranger::Page) } else { Ok(Rights::All) };
    };
    let offered = match headers.get(AUTHORIZATION) {
        Some(value) => bearer(value).map(Cow::Borrowed),
        None => elsewhere().map(Cow::Owned),
    };
    let Some(offered) = offered else { return Err(Stranger::Token) };
    // Both are compared, so that the time tells nothing about which of them it might be.
    let may_read = settings.read_only_token.as_ref().is_some_and(|token| token.matches(&offered));
    match (token.matches(&offered), may_read) {
        (true, _) => Ok(Rights::All),
        (_, true) => Ok(Rights::ReadOnly),
        _ => Err(Stranger::Token),
    }
}

fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer ";
    let (scheme, offered) = value.as_bytes().split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then_some(offered)
}

/// Whether the request comes from a page which is not of this machine, as far as browsers tell. An image on such a page has no
/// `Origin`, but then there is `Sec-Fetch-Site`; and a page whose name was made to point here has neither, but asks for its name.
fn is_foreign_page(headers: &HeaderMap) -> bool {
    const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(origin) = headers.get(ORIGIN) {
        let authority = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
        return !authority.is_some_and(|(_, authority)| is_local(authority));
    }
    let is_browser = text(USER_AGENT).is_some_and(|agent| agent.starts_with("Mozilla/"));
    text(SITE) == Some("cross-site") || is_browser && !text(HOST).is_some_and(is_local)
}

/// Whether a host, with or without a port, is this machine.
fn is_local(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(ipv6) => ipv6.split(']').next(),
        None => authority.split(':').next(),
    };
    let host = host.unwrap_or_default().to_ascii_lowercase();
    host == "localhost"
        || host.ends_with(".localhost")
        || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
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
            ("Bearer  s3cret", Err(Stranger::Token)),
            ("Bearer s3cret ", Err(Stranger::Token)),
            ("Bearer", Err(Stranger::Token)),
            ("Bearer ", Err(Stranger::Token)),
            ("Basic s3cret", Err(Stranger::Token)),
            ("s3cret", Err(Stranger::Token)),
            ("", Err(Stranger::Token)),
        ] {
            assert_eq!(of(&settings, &headers(&[("authorization", header)]), || None), rights, "{header:?}");
        }
        assert_eq!(of(&settings, &HeaderMap::new(), || None), Err(Stranger::Token));
    }

    #[test]
    fn a_token_elsewhere_counts_only_without_the_header() {
        let settings = settings(Some("s3cret"), None);
        let there = || Some(b"s3cret".to_vec());
        assert_eq!(of(&settings, &HeaderMap::new(), there), Ok(Rights::All));
        assert_eq!(of(&settings, &headers(&[("authorization", "Bearer x")]), there), Err(Stranger::Token));
    }

    #[test]
    fn pages_of_other_sites_need_a_token() {
        let open = settings(None, None);
        for (name, value, rights) in [
            ("origin", "http://localhost:3000", Ok(Rights::All)),
            ("origin", "http://127.0.0.1", Ok(Rights::All)),
            ("origin", "https://[::1]:8080", Ok(Rights::All)),
            ("origin", "http://app.localhost:1", Ok(Rights::All)),
            ("origin", "https://example.com", Err(Stranger::Page)),
            ("origin", "https://localhost.example.com", Err(Stranger::Page)),
            ("origin", "https://127.0.0.1.example.com", Err(Stranger::Page)),
            ("origin", "null", Err(Stranger::Page)),
            ("sec-fetch-site", "cross-site", Err(Stranger::Page)),
            ("sec-fetch-site", "same-origin", Ok(Rights::All)),
            ("sec-fetch-site", "none", Ok(Rights::All)),
        ] {
            assert_eq!(of(&open, &headers(&[(name, value)]), || None), rights, "{name}: {value}");
        }
        let browser = ("user-agent", "Mozilla/5.0 (X11; Linux x86_64)");
        for (host, rights) in
            [("localhost:8080", Ok(Rights::All)), ("evil.example:8080", Err(Stranger::Page))]
        {
            assert_eq!(of(&open, &headers(&[("host", host), browser]), || None), rights, "{host}");
            assert_eq!(
                of(&open, &headers(&[("host", host), ("user-agent", "curl/8")]), || None),
                Ok(Rights::All)
            );
        }
        let locked = settings(Some("s3cret"), None);
        let page = headers(&[("origin", "https://example.com"), ("authorization", "Bearer s3cret")]);
        assert_eq!(of(&locked, &page, || None), Ok(Rights::All));
    }
}
