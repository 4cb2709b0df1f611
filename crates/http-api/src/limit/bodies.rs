//! Bodies of the limits API, and what a policy takes of them. Pure.

use keystead_limit::Policy;
use keystead_limit::strategy::AnyStrategy;
use serde::Deserialize;

use super::params;
use crate::error::ApiError;
use crate::written::{self, KeyText, Object};

/// The body of `POST /limit/{policy}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct One<'a> {
    /// The key.
    #[serde(borrow)]
    pub key: KeyText<'a>,
    /// What it costs.
    #[serde(default = "params::one", deserialize_with = "written::whole")]
    pub cost: u64,
    /// Whether nothing is consumed.
    #[serde(default)]
    pub peek: bool,
}

/// The body of `POST /limit/{policy}/check`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Many<'a> {
    /// The keys.
    #[serde(borrow)]
    pub keys: Vec<Object<KeyOf<'a>>>,
}

/// A key of several, with its cost.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyOf<'a> {
    /// The key.
    #[serde(borrow)]
    pub key: KeyText<'a>,
    /// What it costs.
    #[serde(default = "params::one", deserialize_with = "written::whole")]
    pub cost: u64,
}

/// The body of `POST /limit/{policy}/acquire`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Acquire<'a> {
    /// The key.
    #[serde(borrow)]
    pub key: KeyText<'a>,
    /// A lease that is held and shall be renewed.
    #[serde(default, rename = "leaseId", deserialize_with = "written::whole_or_none")]
    pub lease_id: Option<u64>,
}

/// The body of `POST /limit/{policy}/release`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseBody<'a> {
    /// The key.
    #[serde(borrow)]
    pub key: KeyText<'a>,
    /// The lease.
    #[serde(rename = "leaseId", deserialize_with = "written::whole")]
    pub lease_id: u64,
}

/// The body of `POST /limit/{policy}/reserve`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimate<'a> {
    /// The key.
    #[serde(borrow)]
    pub key: KeyText<'a>,
    /// What it costs.
    #[serde(deserialize_with = "written::whole")]
    pub cost: u64,
    /// How long it may stay unsettled.
    #[serde(default, rename = "ttlMs", deserialize_with = "written::whole_or_none")]
    pub ttl_ms: Option<u64>,
}

/// The body of `POST /limit/{policy}/settle`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bill<'a> {
    /// The key.
    #[serde(borrow)]
    pub key: KeyText<'a>,
    /// The reservation.
    #[serde(deserialize_with = "written::whole")]
    pub id: u64,
    /// What it costs.
    #[serde(deserialize_with = "written::whole")]
    pub cost: u64,
}

/// Checks that a policy takes this cost.
///
/// # Errors
/// A concurrency policy counts leases one by one.
pub fn takes_cost(policy: &Policy, cost: u64) -> Result<(), ApiError> {
    match policy.strategy() {
        AnyStrategy::Concurrency(_) if cost != 1 => Err(ApiError::bad(
            "a concurrency policy counts one lease at a time: leave cost out, or acquire each",
        )),
        _ => Ok(()),
    }
}

/// Checks that a policy has leases.
///
/// # Errors
/// When it has none.
pub fn has_leases(policy: &Policy) -> Result<(), ApiError> {
    match policy.strategy() {
        AnyStrategy::Concurrency(_) => Ok(()),
        _ => {
            let kind = policy.kind();
            Err(ApiError::bad(format!("a {kind} policy has no leases: only concurrency has")))
        }
    }
}

/// Checks that a policy has units.
///
/// # Errors
/// When it has leases.
pub fn has_units(policy: &Policy) -> Result<(), ApiError> {
    match policy.strategy() {
        AnyStrategy::Concurrency(_) => {
            Err(ApiError::bad("a concurrency policy has leases, not units: acquire and release them"))
        }
        _ => Ok(()),
    }
}

/// The error for a reservation that does not exist.
#[must_use]
pub fn no_reservation() -> ApiError {
    ApiError::NotFound(
        "there is no such reservation: it is settled already, or has expired, and its estimate stands"
            .to_owned(),
    )
}

/// Checks that a number is exact in every JSON implementation.
///
/// # Errors
/// When it is not.
pub fn whole(number: u64) -> Result<u64, ApiError> {
    match (1..=keystead_limit::bounds::WHOLE_MAX).contains(&number) {
        true => Ok(number),
        false => Err(ApiError::bad("an id is a whole number from 1 to 9007199254740991")),
    }
}
