//! Signature Version 4 of AWS, for the one kind of request that the store sends: POST to `/`, with a body and without parameters. Pure.

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac};
use keystead_core::Millis;
use sha2::{Digest, Sha256};

use crate::date;

/// A key pair, and the token of a session if it is a temporary one.
pub(super) struct Credentials {
    pub(super) access_key_id: String,
    pub(super) secret_access_key: String,
    pub(super) session_token: Option<String>,
}

/// What a signature covers besides the credentials.
pub(super) struct Signed<'a> {
    /// In lower case, in alphabetical order, without `x-amz-date` and `x-amz-security-token`.
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) body: &'a [u8],
    pub(super) region: &'a str,
    pub(super) service: &'a str,
    pub(super) at: Millis,
}

/// The headers that a signature adds: its date, and itself.
pub(super) struct Signature {
    pub(super) date: String,
    pub(super) authorization: String,
}

fn sha256(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    // A key of any length is valid.
    let Ok(mut hmac) = Hmac::<Sha256>::new_from_slice(key) else { return Vec::new() };
    hmac.update(text.as_bytes());
    hmac.finalize().into_bytes().to_vec()
}

pub(super) fn sign(credentials: &Credentials, signed: &Signed<'_>) -> Signature {
    let Credentials { access_key_id, secret_access_key, session_token } = credentials;
    let Signed { region, service, .. } = signed;
    let date = date::basic(signed.at);
    let mut headers = signed.headers.to_vec();
    headers.push(("x-amz-date", &date));
    if let Some(token) = session_token {
        headers.push(("x-amz-security-token", token));
    }
    headers.sort_unstable();
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let lines: String = headers.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
    let request = format!("POST\n/\n\n{lines}\n{names}\n{}", sha256(signed.body));
    let day = &date[..8];
    let scope = format!("{day}/{region}/{service}/aws4_request");
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", sha256(request.as_bytes()));
    let secret = format!("AWS4{secret_access_key}");
    let key =
        [day, region, service, "aws4_request"].iter().fold(secret.into_bytes(), |key, part| hmac(&key, part));
    let signature = HEXLOWER.encode(&hmac(&key, &text));
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={access_key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    );
    Signature { date, authorization }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The signatures that botocore 1.44 makes of the same requests.
    #[test]
    fn signatures_are_those_of_aws() {
        let sign = |host: &str, region: &str, session_token: Option<&str>| {
            let credentials = Credentials {
                access_key_id: "AKIDEXAMPLE".to_owned(),
                secret_access_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned(),
                session_token: session_token.map(str::to_owned),
            };
            let signed = Signed {
                headers: &[
                    ("content-type", "application/x-amz-json-1.0"),
                    ("host", host),
                    ("x-amz-target", "DynamoDB_20120810.GetItem"),
                ],
                body: br#"{"TableName":"limits"}"#,
                region,
                service: "dynamodb",
                at: Millis(1_440_938_160_000),
            };
            sign(&credentials, &signed)
        };
        let Signature { date, authorization } = sign("dynamodb.eu-west-1.amazonaws.com", "eu-west-1", None);
        assert_eq!(date, "20150830T123600Z");
        assert_eq!(
            authorization,
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/eu-west-1/dynamodb/aws4_request, \
             SignedHeaders=content-type;host;x-amz-date;x-amz-target, \
             Signature=1f663fd1bd5d358658e91a45aba68c10f1dbff89a40fbcc3ef3126dcfa3cc4c2"
        );
        let Signature { authorization, .. } =
            sign("127.0.0.1:8000", "us-east-1", Some("a-token/of+session=="));
        assert_eq!(
            authorization,
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/dynamodb/aws4_request, \
             SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;x-amz-target, \
             Signature=324666d210e09707885b27ccd5fd4483eb363b1d10fe7c79e0e552110bc5058f"
        );
    }
}
