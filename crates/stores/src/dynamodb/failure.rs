//! DynamoDB's exceptions as errors that say what to do. A request that was rejected with an exception changed nothing.

use keystead_core::{Code, Error};

use super::table::KEY;
use super::wire::{Exception, Wire};

pub(super) fn invalid_header() -> Error {
    let message = "the credentials of AWS have a character that no header may have";
    Error::new(Code::ConfigInvalid, message)
}

pub(super) fn of(exception: &Exception, wire: &Wire) -> Error {
    let Wire { table, region, .. } = wire;
    let (name, message) = (exception.name(), &exception.message);
    let unavailable = |message: String| Error::new(Code::StoreUnavailable, message);
    match name {
        "ResourceNotFoundException" => Error::new(
            Code::ConfigInvalid,
            format!(
                "there is no table '{table}' in {region}: create=true in the URL creates it, or: aws dynamodb \
                 create-table --table-name {table} --billing-mode PAY_PER_REQUEST --attribute-definitions \
                 AttributeName={KEY},AttributeType=S --key-schema AttributeName={KEY},KeyType=HASH"
            ),
        ),
        "ProvisionedThroughputExceededException"
        | "RequestLimitExceeded"
        | "RequestLimitExceededException"
        | "ThrottlingException" => unavailable(format!(
            "DynamoDB throttles requests to the table '{table}' ({name}): raise its capacity, or spread the keys"
        )),
        // The messages of these can repeat headers, and the token of a session is one.
        "InvalidSignatureException" if message.contains("expired") || message.contains("not yet") => {
            unavailable(format!("DynamoDB rejected the time of the request ({name}): check the clock"))
        }
        "ExpiredTokenException" => {
            unavailable(format!("DynamoDB rejected the session token ({name}): it has expired"))
        }
        "IncompleteSignatureException"
        | "InvalidSignatureException"
        | "MissingAuthenticationTokenException"
        | "UnrecognizedClientException" => {
            unavailable(format!("DynamoDB rejected the access key or secret ({name})"))
        }
        "AccessDeniedException" => unavailable(format!(
            "DynamoDB denied access to the table '{table}': allow dynamodb:GetItem and dynamodb:PutItem ({message})"
        )),
        "ValidationException" if message.contains("exceeded the maximum") => {
            Error::new(Code::TooLarge, format!("DynamoDB replied {message}"))
        }
        "ValidationException" if message.contains("match the schema") || message.contains("the key") => {
            let message = format!(
                "the table '{table}' has another key ({message}): its only key is '{KEY}', of the type S"
            );
            Error::new(Code::ConfigInvalid, message)
        }
        _ => unavailable(format!("DynamoDB replied {name} {message}")),
    }
}
