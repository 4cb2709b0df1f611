//! Settings: tokens from secrets, policies from a variable. Touches the environment of the Worker.
//!
//! A secret is compared in a time that depends on its length only. Without a token nothing is served: the Worker is on the internet.

use std::collections::BTreeMap;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use keystead_commands::ctx::Rights;
use keystead_core::{Code, Error, Result};
use keystead_http_api::rights::bearer;
use keystead_http_api::upstash::path;
use keystead_limit::Policy;
use subtle::ConstantTimeEq;
use worker::Env;

use crate::bounds::POLICIES_MAX;

const TOKEN: &str = "KEYSTEAD_TOKEN";
const READ_ONLY_TOKEN: &str = "KEYSTEAD_READ_ONLY_TOKEN";
const STORAGE_TOKEN: &str = "KEYSTEAD_STORAGE_TOKEN";
const LIMITS: &str = "LIMITS";

/// The tokens.
pub(crate) struct Tokens {
    all: String,
    read_only: Option<String>,
}

/// Why a request is not authorised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// No token is set.
    Unset,
    /// It has none, or a wrong one.
    Wrong,
}

impl Tokens {
    fn of(env: &Env) -> Option<Tokens> {
        let read = |name: &str| {
            env.secret(name).ok().map(|secret| secret.to_string()).filter(|text| !text.is_empty())
        };
        Some(Tokens { all: read(TOKEN)?, read_only: read(READ_ONLY_TOKEN) })
    }

    fn rights(&self, offered: &[u8]) -> Option<Rights> {
        // Both are compared, so that the time does not reveal which of them it might be.
        let may_read = self.read_only.as_ref().is_some_and(|token| token.as_bytes().ct_eq(offered).into());
        let may_all: bool = self.all.as_bytes().ct_eq(offered).into();
        match (may_all, may_read) {
            (true, _) => Some(Rights::All),
            (_, true) => Some(Rights::ReadOnly),
            _ => None,
        }
    }
}

/// The rights of a request. The token in the header is used; one in the query only where there is no header.
pub(crate) fn rights_of(
    env: &Env,
    headers: &HeaderMap,
    query: Option<&str>,
) -> std::result::Result<Rights, Denied> {
    let tokens = Tokens::of(env).ok_or(Denied::Unset)?;
    let offered = match headers.get(AUTHORIZATION) {
        Some(value) => bearer(value).map(<[u8]>::to_vec),
        None => path::token(query).map(|token| token.into_owned()),
    };
    offered.and_then(|offered| tokens.rights(&offered)).ok_or(Denied::Wrong)
}

/// Whether a request has the token of the storage service; none where that is not set.
pub(crate) fn is_compute(env: &Env, headers: &HeaderMap) -> Option<bool> {
    let secret =
        env.secret(STORAGE_TOKEN).ok().map(|secret| secret.to_string()).filter(|text| !text.is_empty())?;
    let offered = headers.get(AUTHORIZATION).and_then(bearer).unwrap_or_default();
    Some(secret.as_bytes().ct_eq(offered).into())
}

/// The text when no token is set.
pub(crate) const NO_TOKEN: &str = "the secret KEYSTEAD_TOKEN is not set, and without it nothing is served: npx wrangler secret put KEYSTEAD_TOKEN";

/// The policies of rate limits: a JSON object with one for each name.
///
/// # Errors
/// `config_invalid` with what is wrong.
pub(crate) fn policies(env: &Env) -> Result<BTreeMap<String, Policy>> {
    let Some(text) = env.var(LIMITS).ok().map(|text| text.to_string()) else { return Ok(BTreeMap::new()) };
    let invalid = |why: String| Error::new(Code::ConfigInvalid, format!("the variable {LIMITS}: {why}"));
    let tables: BTreeMap<String, serde_json::Value> = serde_json::from_str(&text).map_err(|error| {
        invalid(format!("{error}: write {{\"login\":{{\"kind\":\"gcra\",\"limit\":5,\"periodMs\":60000}}}}"))
    })?;
    if tables.len() > POLICIES_MAX {
        return Err(invalid(format!("at most {POLICIES_MAX} policies are allowed")));
    }
    let policy = |(name, table): (String, serde_json::Value)| match Policy::from_json_value(&table) {
        Ok(policy) => Ok((name, policy)),
        Err(error) => Err(invalid(format!("{name}: {}", error.message()))),
    };
    tables.into_iter().map(policy).collect()
}
