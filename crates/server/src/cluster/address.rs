//! Where clients reach a node: `redis://HOST:PORT,http://HOST:PORT`. Pure.

use std::fmt;

use keystead_cluster::{Node, NodeId};
use keystead_commands::hub::endpoint;
use keystead_core::{Code, Error, Result};

/// What to write.
pub(crate) const FORM: &str =
    "write both addresses of the node, for example redis://10.0.0.1:6379,http://10.0.0.1:8080";

/// The addresses of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// By RESP: `redis://HOST:PORT` or `rediss://HOST:PORT`.
    pub resp: String,
    /// By HTTP: `http://HOST:PORT` or `https://HOST:PORT`.
    pub http: String,
}

impl Addresses {
    /// Parses them, in any order. The error says why not.
    pub(crate) fn parse(text: &str) -> std::result::Result<Addresses, String> {
        let (mut resp, mut http) = (None, None);
        for url in text.split(',').map(str::trim) {
            let place = match url.split_once("://").map(|(scheme, _)| scheme) {
                Some("redis" | "rediss") => &mut resp,
                Some("http" | "https") => &mut http,
                _ => return Err("has an address that is neither redis:// nor http://".to_owned()),
            };
            if endpoint(url).is_none() {
                return Err("has an address that is not HOST:PORT".to_owned());
            }
            if place.replace(url.trim_end_matches('/').to_owned()).is_some() {
                return Err("has two addresses of one kind".to_owned());
            }
        }
        match (resp, http) {
            (Some(resp), Some(http)) => Ok(Addresses { resp, http }),
            (None, _) => Err("has no address for RESP".to_owned()),
            (_, None) => Err("has no address for HTTP".to_owned()),
        }
    }

    /// Those of a node.
    pub(crate) fn of(node: &Node) -> Addresses {
        Addresses { resp: node.resp.clone(), http: node.http.clone() }
    }

    /// The node of this id at these addresses.
    ///
    /// # Errors
    /// `bad_request` when an address is too long.
    pub(crate) fn node(&self, id: NodeId) -> Result<Node> {
        let node = Node::new(id, self.resp.clone(), self.http.clone());
        node.validate().map_err(|error| Error::new(Code::BadRequest, error.to_string()))?;
        Ok(node)
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.resp, self.http)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_one_address_of_each_kind() {
        let both = Addresses::parse("http://h:8080, rediss://[::1]:6379/").unwrap();
        assert_eq!(both.to_string(), "rediss://[::1]:6379,http://h:8080");
        for (text, words) in [
            ("", "neither"),
            ("h:1", "neither"),
            ("redis://h:1", "no address for HTTP"),
            ("http://h:1", "no address for RESP"),
            ("redis://h:1,redis://h:2", "two addresses"),
            ("redis://h,http://h:1", "not HOST:PORT"),
            ("redis://user:pw@h:1,http://h:1", "not HOST:PORT"),
        ] {
            let error = Addresses::parse(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
