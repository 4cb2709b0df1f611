//! The HTTP status of an error: one match. Pure.

use http::StatusCode;
use keystead_core::Code;

/// The status of the response for an error of this code.
#[must_use]
pub fn of(code: Code) -> StatusCode {
    match code {
        Code::BadRequest => StatusCode::BAD_REQUEST,
        Code::WrongType | Code::Conflict => StatusCode::CONFLICT,
        Code::Gone => StatusCode::GONE,
        Code::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Code::OutOfMemory => StatusCode::INSUFFICIENT_STORAGE,
        Code::Unsupported => StatusCode::NOT_IMPLEMENTED,
        Code::QueueFull | Code::StoreUnavailable | Code::TryAgain => StatusCode::SERVICE_UNAVAILABLE,
        // A code that is not listed is a defect of this match, and `Code` may grow.
        Code::ConfigInvalid | Code::Corrupt | Code::Internal | _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new code fails here until its status has been decided.
    #[test]
    fn every_code_has_a_deliberate_status() {
        let decided = [
            ("store_unavailable", 503),
            ("config_invalid", 500),
            ("bad_request", 400),
            ("wrong_type", 409),
            ("conflict", 409),
            ("queue_full", 503),
            ("try_again", 503),
            ("unsupported", 501),
            ("too_large", 413),
            ("out_of_memory", 507),
            ("corrupt", 500),
            ("gone", 410),
            ("internal", 500),
        ];
        let actual: Vec<_> = Code::ALL.iter().map(|c| (c.as_str(), of(*c).as_u16())).collect();
        assert_eq!(actual, decided);
    }
}
