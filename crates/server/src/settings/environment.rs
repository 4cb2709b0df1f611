//! The environment variables that are settings, and those that look like misspelt ones. Pure.
//!
//! An unknown variable never prevents the start: platforms and images set variables of their own.

use std::ffi::{OsStr, OsString};

use keystead_core::Result;

use super::layers::{Source, Value, utf8};
use super::table::{SETTINGS, Setting};
use crate::suggest;

const PREFIX: &str = "KEYSTEAD_";

/// The settings among these variables, and a warning for each that looks like a misspelt one.
pub(super) fn variables(environment: Vec<(OsString, OsString)>) -> Result<(Vec<Value>, Vec<String>)> {
    let (mut layer, mut warnings) = (Vec::new(), Vec::new());
    for (name, text) in environment {
        let Some((name, word)) = name.to_str().and_then(|name| Some((name, name.strip_prefix(PREFIX)?)))
        else {
            continue;
        };
        match SETTINGS.iter().find(|setting| setting.variable() == name) {
            Some(setting) => {
                layer.push(Value::new(setting, Source::Variable(name.to_owned()), utf8(text, name)?));
            }
            None if is_service_link(word, &text) => {}
            None => warnings.extend(meant(word).map(|setting| {
                let variable = setting.variable();
                format!("the variable {name} is not a setting and has no effect: did you mean {variable}?")
            })),
        }
    }
    Ok((layer, warnings))
}

/// Whether Kubernetes or Docker sets such a variable in every container next to a service that is called `keystead` or
/// `keystead-...`: `KEYSTEAD_SERVICE_HOST`, `KEYSTEAD_HTTP_SERVICE_PORT_WEB`, `KEYSTEAD_PORT_6379_TCP_ADDR`, and
/// `KEYSTEAD_HTTP_PORT` with a URL.
pub(super) fn is_service_link(word: &str, text: &OsStr) -> bool {
    let words: Vec<&str> = word.split('_').collect();
    let is_url = || text.to_str().is_some_and(|text| text.contains("://"));
    words.windows(2).any(|pair| match pair {
        ["SERVICE", "HOST" | "PORT"] => true,
        ["PORT", number] => !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()),
        _ => false,
    }) || words.last() == Some(&"PORT") && is_url()
}

/// The setting with a similar name. Compared without the prefix, which all of them share.
fn meant(word: &str) -> Option<&'static Setting> {
    let name = suggest::nearest(word, SETTINGS.iter().map(|setting| setting.name))?;
    SETTINGS.iter().find(|setting| setting.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings(pairs: &[(&str, &str)]) -> Vec<String> {
        let pairs = pairs.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect();
        let (layer, warnings) = variables(pairs).unwrap();
        assert!(layer.is_empty());
        warnings
    }

    #[test]
    fn a_misspelt_variable_gets_a_suggestion() {
        assert_eq!(
            warnings(&[("KEYSTEAD_DURABILTY", "fsync")]),
            [
                "the variable KEYSTEAD_DURABILTY is not a setting and has no effect: did you mean KEYSTEAD_DURABILITY?"
            ]
        );
        assert!(!warnings(&[("KEYSTEAD_TOKN", "hunter2")])[0].contains("hunter2"));
    }

    #[test]
    fn variables_of_platforms_and_images_are_ignored() {
        let none: [&str; 0] = [];
        assert_eq!(
            warnings(&[
                ("KEYSTEAD_SERVICE_HOST", "10.0.0.1"),
                ("KEYSTEAD_SERVICE_PORT", "8080"),
                ("KEYSTEAD_SERVICE_PORT_RESP", "6379"),
                ("KEYSTEAD_PORT", "tcp://10.0.0.1:8080"),
                ("KEYSTEAD_PORT_6379_TCP", "tcp://10.0.0.1:6379"),
                ("KEYSTEAD_PORT_6379_TCP_ADDR", "10.0.0.1"),
                ("KEYSTEAD_HTTP_PORT", "tcp://10.0.0.1:80"),
                ("KEYSTEAD_HTTP_SERVICE_HOST", "10.0.0.1"),
                ("KEYSTEAD_RESP_PORT_6379_TCP_PROTO", "tcp"),
                ("KEYSTEAD_PRIMARY_PORT", "tcp://10.0.0.1:6379"),
                ("KEYSTEAD_VERSION", "0.1.0"),
                ("KEYSTEAD_", ""),
            ]),
            none
        );
    }

    #[test]
    fn no_setting_has_the_name_of_a_service_link() {
        for setting in SETTINGS {
            let variable = setting.variable();
            let word = variable.strip_prefix(PREFIX).unwrap();
            assert!(!is_service_link(word, OsStr::new("tcp://10.0.0.1:80")), "{variable} would be ambiguous");
        }
    }
}
