//! Tokens of offline clients: which client it is, which keys it may synchronise, and until when, signed with the server's secret. Pure.
//!
//! `ks1.CLAIMS.SIGNATURE`, both base64url: the claims are JSON, the signature is HMAC-SHA-256 of everything before it. Invariant:
//! nothing of a token is read before its signature has been compared, in constant time. Another secret ends all tokens.

use std::fmt;

use data_encoding::BASE64URL_NOPAD;
use hmac::{Hmac, KeyInit, Mac};
use keystead_commands::bounds::SYNC_CLIENT_BYTES_MAX;
use keystead_core::Millis;
use keystead_core::bounds::KEY_BYTES_MAX;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::bounds::{SYNC_SECRET_BYTES_MIN, SYNC_TOKEN_BYTES_MAX, TOKEN_BYTES_MAX};
use crate::settings::value::InvalidValue;

const PREFIX: &str = "ks1.";

/// Whether a token is of this kind, valid or not.
#[must_use]
pub fn is_one(token: &[u8]) -> bool {
    token.starts_with(PREFIX.as_bytes())
}

/// What a token allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scope {
    /// The client.
    pub client: String,
    /// The prefix of its keys.
    pub prefix: String,
    /// When it ends, in milliseconds since 1970.
    pub expires_at: u64,
}

impl Scope {
    /// Why such a token cannot be made, if so.
    #[must_use]
    pub fn flaw(&self) -> Option<String> {
        if !is_client(&self.client) {
            return Some(format!(
                "a client is named with 1 to {SYNC_CLIENT_BYTES_MAX} letters, digits, and . _ : -"
            ));
        }
        (self.prefix.len() > KEY_BYTES_MAX / 64)
            .then(|| format!("the prefix is over {} bytes", KEY_BYTES_MAX / 64))
    }
}

/// Whether a client may have this name.
#[must_use]
pub fn is_client(name: &str) -> bool {
    (1..=SYNC_CLIENT_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._:-".contains(&b))
}

/// Why a token is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// This secret has not signed it.
    Forged,
    /// It has expired.
    Expired,
}

/// The secret that signs tokens. It cannot be printed.
#[derive(Clone)]
pub struct SyncSecret(Hmac<Sha256>);

impl SyncSecret {
    /// Parses a secret. Whoever has a token can try secrets on it, so a short one is an error.
    pub(crate) fn parse(text: &str) -> Result<SyncSecret, InvalidValue> {
        let fix = "use the output of openssl rand -hex 32";
        if text.len() < SYNC_SECRET_BYTES_MIN {
            return Err(InvalidValue::new(format!("is shorter than {SYNC_SECRET_BYTES_MIN} bytes"), fix));
        }
        if text.len() > TOKEN_BYTES_MAX {
            return Err(InvalidValue::new(format!("is longer than {TOKEN_BYTES_MAX} bytes"), fix));
        }
        let hmac = Hmac::new_from_slice(text.as_bytes()).map_err(|_| InvalidValue::new("is no key", fix))?;
        Ok(SyncSecret(hmac))
    }

    /// A token for this.
    #[must_use]
    pub fn sign(&self, scope: &Scope) -> String {
        let claims = serde_json::to_vec(scope).unwrap_or_default();
        let signed = format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&claims));
        let mut hmac = self.0.clone();
        hmac.update(signed.as_bytes());
        let signature = hmac.finalize().into_bytes();
        format!("{signed}.{}", BASE64URL_NOPAD.encode(&signature))
    }

    /// What a token allows now.
    ///
    /// # Errors
    /// Why it is not accepted.
    pub fn open(&self, token: &[u8], now: Millis) -> Result<Scope, Invalid> {
        let scope = self.verified(token).ok_or(Invalid::Forged)?;
        if now.0 >= scope.expires_at { Err(Invalid::Expired) } else { Ok(scope) }
    }

    fn verified(&self, token: &[u8]) -> Option<Scope> {
        if token.len() > SYNC_TOKEN_BYTES_MAX {
            return None;
        }
        let end = token.iter().rposition(|byte| *byte == b'.')?;
        let (signed, signature) = (&token[..end], &token[end + 1..]);
        let mut hmac = self.0.clone();
        hmac.update(signed);
        // Compares in constant time.
        hmac.verify_slice(&BASE64URL_NOPAD.decode(signature).ok()?).ok()?;
        let claims = signed.strip_prefix(PREFIX.as_bytes())?;
        serde_json::from_slice(&BASE64URL_NOPAD.decode(claims).ok()?).ok()
    }
}

impl fmt::Debug for SyncSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(set)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "0123456789abcdef0123456789abcdef";

    fn scope() -> Scope {
        Scope { client: "phone".into(), prefix: "todo:".into(), expires_at: 1000 }
    }

    #[test]
    fn a_token_is_what_was_signed_until_it_expires() {
        let secret = SyncSecret::parse(SECRET).unwrap();
        let token = secret.sign(&scope());
        assert!(is_one(token.as_bytes()));
        assert_eq!(secret.open(token.as_bytes(), Millis(999)), Ok(scope()));
        assert_eq!(secret.open(token.as_bytes(), Millis(1000)), Err(Invalid::Expired));
        let other = SyncSecret::parse(&SECRET.replace('0', "x")).unwrap();
        assert_eq!(other.open(token.as_bytes(), Millis(0)), Err(Invalid::Forged));
    }

    #[test]
    fn nothing_of_a_token_can_be_changed() {
        let secret = SyncSecret::parse(SECRET).unwrap();
        let token = secret.sign(&scope());
        for n in 0..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[n] ^= 1;
            assert_eq!(secret.open(&bytes, Millis(0)), Err(Invalid::Forged), "byte {n}");
        }
        for other in ["", "ks1.", "ks1..", ".", "ks1.e30.", &token[..token.len() - 1], &format!("{token}A")] {
            assert_eq!(secret.open(other.as_bytes(), Millis(0)), Err(Invalid::Forged), "{other}");
        }
    }

    #[test]
    fn a_secret_is_long_and_not_shown() {
        assert!(SyncSecret::parse("short").is_err());
        assert_eq!(format!("{:?}", SyncSecret::parse(SECRET).unwrap()), "(set)");
        for name in ["", "a b", "a/b", "é", &"x".repeat(SYNC_CLIENT_BYTES_MAX + 1)] {
            assert!(!is_client(name), "{name}");
        }
        assert!(is_client("tab-1:a.B_9"));
    }
}
