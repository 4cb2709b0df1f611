//! The parts of the path of the limits API. Pure.

use std::borrow::Cow;

pub(super) use keystead_http_api::limit::params::{STATUS, body, denial};

use super::super::error::ApiError;
use super::super::parameters::decoded;
use super::super::request::HttpRequest;

const PATH: &str = "the path is /limit/POLICY, or /limit/POLICY/KEY";

/// The policy in the path.
pub(super) fn policy_name(request: &HttpRequest) -> Result<&str, ApiError> {
    match request.path_parameter("policy") {
        "" => Err(ApiError::bad(PATH)),
        name => Ok(name),
    }
}

/// The policy in the path, and the segment behind it, which is named so in the route.
pub(super) fn policy_and<'a>(
    request: &'a HttpRequest,
    parameter: &str,
) -> Result<(&'a str, &'a str), ApiError> {
    match (policy_name(request)?, request.path_parameter(parameter)) {
        (_, "") => Err(ApiError::bad(PATH)),
        (_, segment) if segment.contains('/') => Err(ApiError::bad("a '/' in a key is written %2F")),
        (policy, segment) => Ok((policy, segment)),
    }
}

/// The key that a segment of a path encodes.
pub(super) fn key(segment: &str) -> Result<Cow<'_, [u8]>, ApiError> {
    decoded(segment, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(target: &str) -> hyper::http::request::Parts {
        hyper::Request::builder().uri(target).body(()).unwrap().into_parts().0
    }

    fn request(target: &str) -> HttpRequest {
        HttpRequest::for_test(head(target), "")
    }

    #[test]
    fn a_path_names_a_policy_and_a_key() {
        assert_eq!(policy_name(&request("/limit/a")).unwrap(), "a");
        assert_eq!(policy_and(&request("/limit/a/b%2Fc"), "key").unwrap(), ("a", "b%2Fc"));
        assert!(policy_name(&request("/limit/")).is_err());
        for target in ["/limit//a", "/limit/a/", "/limit/a/b/c"] {
            assert!(policy_and(&request(target), "key").is_err(), "{target}");
        }
        assert_eq!(&*key("b%2Fc").unwrap(), b"b/c");
    }
}
