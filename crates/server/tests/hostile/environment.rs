//! Environment variables that are no settings: those of Kubernetes, of images, and misspelt ones.

use crate::common::{launch, run_in};
use crate::{ADDRESS_SPACE_BYTES, assert_unharmed};
use keystead_testkit::server::Server;

/// What a container gets beside Services called `keystead`, `keystead-http`, `keystead-resp` and `keystead-primary`, and from an image.
const OF_PLATFORMS: [(&str, &str); 15] = [
    ("KEYSTEAD_PORT", "tcp://10.96.0.7:6379"),
    ("KEYSTEAD_SERVICE_HOST", "10.96.0.7"),
    ("KEYSTEAD_SERVICE_PORT", "6379"),
    ("KEYSTEAD_SERVICE_PORT_RESP", "6379"),
    ("KEYSTEAD_PORT_6379_TCP", "tcp://10.96.0.7:6379"),
    ("KEYSTEAD_PORT_6379_TCP_ADDR", "10.96.0.7"),
    ("KEYSTEAD_PORT_6379_TCP_PORT", "6379"),
    ("KEYSTEAD_PORT_6379_TCP_PROTO", "tcp"),
    ("KEYSTEAD_HTTP_SERVICE_HOST", "10.96.0.8"),
    ("KEYSTEAD_HTTP_PORT", "tcp://10.96.0.8:80"),
    ("KEYSTEAD_HTTP_PORT_80_TCP_ADDR", "10.96.0.8"),
    ("KEYSTEAD_RESP_PORT", "tcp://10.96.0.9:6379"),
    ("KEYSTEAD_PRIMARY_PORT", "tcp://10.96.0.10:6379"),
    ("KEYSTEAD_VERSION", "0.1.0"),
    ("KEYSTEAD_GIT_COMMIT", "8d907ed"),
];

fn start(variables: &[(&str, &str)]) -> Server {
    let launch = launch(&["--durability", "memory"]).address_space(ADDRESS_SPACE_BYTES);
    variables.iter().fold(launch, |launch, (name, value)| launch.env(name, value)).start().unwrap()
}

#[test]
fn variables_that_a_platform_injects_do_not_stop_the_server() {
    let server = start(&OF_PLATFORMS);
    assert_unharmed(&server);
    assert!(!server.logs().contains("KEYSTEAD_"), "no warning is due:\n{}", server.logs());
}

#[test]
fn a_misspelt_variable_starts_with_a_warning_and_without_its_value() {
    let server = start(&[("KEYSTEAD_TOKNE", "hunter2"), ("KEYSTEAD_LOGLEVEL", "debug")]);
    assert_unharmed(&server);
    let logs = server.logs();
    for meant in ["KEYSTEAD_TOKEN", "KEYSTEAD_LOG_LEVEL"] {
        assert!(
            logs.contains(&format!("is not a setting and has no effect: did you mean {meant}?")),
            "{logs}"
        );
    }
    assert!(!logs.contains("hunter2"), "{logs}");
}

#[test]
fn a_bad_value_of_a_real_setting_still_stops_the_server() {
    let dir = crate::common::dir();
    let (code, _, stderr) = run_in(dir.path(), &[], &[("KEYSTEAD_HTTP", "tcp://10.96.0.8:80")]);
    assert_eq!(code, 2);
    assert!(stderr.starts_with("keystead: KEYSTEAD_HTTP=tcp://10.96.0.8:80 is "), "{stderr}");
}
