//! Codes of errors that are not errors of a store. Pure.

/// No token, or a wrong one.
pub const UNAUTHORIZED: &str = "unauthorized";
/// A read-only token, or a host that is not this machine where no token is set.
pub const FORBIDDEN: &str = "forbidden";
/// It does not exist.
pub const NOT_FOUND: &str = "not_found";
/// The path takes other methods.
pub const METHOD_NOT_ALLOWED: &str = "method_not_allowed";
/// The body did not arrive in time.
pub const TIMED_OUT: &str = "timed_out";
/// The media type of the body is not supported.
pub const UNSUPPORTED_MEDIA_TYPE: &str = "unsupported_media_type";
/// The database is not open yet.
pub const LOADING: &str = "loading";
/// Another node of the cluster owns the key.
pub const MOVED: &str = "moved";
/// It is understood, but does not fit the current state.
pub const UNPROCESSABLE: &str = "unprocessable";

/// A request has more items than one may have.
pub const TOO_MANY_ITEMS: &str = "too_many_items";

/// All of them.
pub const ALL: &[&str] = &[
    UNAUTHORIZED,
    FORBIDDEN,
    NOT_FOUND,
    METHOD_NOT_ALLOWED,
    TIMED_OUT,
    LOADING,
    UNSUPPORTED_MEDIA_TYPE,
    MOVED,
    UNPROCESSABLE,
    TOO_MANY_ITEMS,
];
