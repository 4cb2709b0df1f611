//! A database of the worker in the place of a server: its arguments become settings of the worker.

use serde_json::{Map, Value, json};

use crate::client::Http;
use crate::database::Database;

/// What the tests take for a server.
pub(crate) type Server = Database;

/// A database with these arguments of the server.
pub(crate) fn memory(arguments: &[&str]) -> Server {
    opened(bindings(arguments))
}

pub(crate) fn open() -> (Server, Http) {
    let server = memory(&[]);
    let http = Http::connect(&server);
    (server, http)
}

pub(crate) fn opened(bindings: Map<String, Value>) -> Server {
    // `./test edge`, which runs these tests, has built it.
    Database::open(bindings).unwrap_or_else(|missing| panic!("{missing}"))
}

/// The settings of the worker that mean what these arguments mean to the server.
fn bindings(arguments: &[&str]) -> Map<String, Value> {
    let (pairs, alone) = arguments.as_chunks::<2>();
    assert!(alone.is_empty(), "a setting without a value: {alone:?}");
    let binding = |[name, value]: &[&str; 2]| {
        let name = match *name {
            // The platform has one level of durability.
            "--durability" => return None,
            "--shards" => "OBJECTS",
            "--token" => "KEYSTEAD_TOKEN",
            "--read-only-token" => "KEYSTEAD_READ_ONLY_TOKEN",
            other => panic!("the worker has no setting for {other}"),
        };
        Some((name.to_owned(), json!(value)))
    };
    pairs.iter().filter_map(binding).collect()
}

/// A database with policies.
pub(crate) struct Fixture {
    pub(crate) server: Server,
}

impl Fixture {
    /// With policies of a settings file. What only the server has is left out: stores of their own, and a choice of headers.
    pub(crate) fn with(policies: &str, arguments: &[&str]) -> Fixture {
        let mut settings: Map<String, Value> = toml::from_str(policies).unwrap();
        let mut limits = settings["limit"].take();
        for policy in limits.as_object_mut().unwrap().values_mut() {
            let policy = policy.as_object_mut().unwrap();
            policy.remove("store");
            policy.remove("headers");
        }
        let mut bindings = bindings(arguments);
        bindings.insert("LIMITS".to_owned(), json!(limits.to_string()));
        Fixture { server: opened(bindings) }
    }

    pub(crate) fn open(arguments: &[&str]) -> (Fixture, Http) {
        let fixture = Fixture::with(crate::POLICIES, arguments);
        let http = Http::connect(&fixture.server);
        (fixture, http)
    }
}

/// Documents that are elsewhere: `edge/tests/stores.cjs` has the tests of those.
pub(crate) mod stores {
    use crate::client::Http;

    /// Runs a case on a database.
    pub(crate) fn on_two_stores(case: impl Fn(&mut Http)) {
        let (_server, mut http) = super::open();
        case(&mut http);
    }
}
