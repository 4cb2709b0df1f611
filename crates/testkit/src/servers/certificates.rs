//! Certificates of a test: those of a server, of the authority that issued it, and of another authority. Runs `openssl`.

use std::path::Path;
use std::process::Command;

use super::{find_binary, run};
use crate::failure::Checked;
use crate::setup::NotOpened;

/// The certificate of the authority that issued that of the server.
pub const AUTHORITY: &str = "authority.pem";

/// The certificate of an authority that issued nothing.
pub const OTHER_AUTHORITY: &str = "other-authority.pem";

/// The certificate of the server, which is valid for 127.0.0.1 and for no name.
pub const CERTIFICATE: &str = "server.pem";

/// The key of that certificate.
pub const KEY: &str = "server.key";

const CONFIGURATION: &str = "[req]\ndistinguished_name=dn\nprompt=no\n[dn]\nCN=tests of keystead\n\
    [authority]\nbasicConstraints=critical,CA:TRUE\n\
    [server]\nbasicConstraints=critical,CA:FALSE\nsubjectAltName=IP:127.0.0.1\n";

/// Whether certificates can be made.
///
/// # Errors
/// `Missing`, with how to install it.
pub fn find() -> Result<(), NotOpened> {
    find_binary("openssl", &["openssl"], "apt install openssl").map(drop)
}

/// Makes all of them in a directory.
///
/// # Errors
/// With the message of openssl.
pub fn make(dir: &Path) -> Checked {
    std::fs::write(dir.join("openssl.cnf"), CONFIGURATION)?;
    let make = |words: &str| {
        let common =
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -config openssl.cnf";
        let mut openssl = Command::new("openssl");
        run(openssl.args(common.split(' ')).args(words.split(' ')).current_dir(dir))
    };
    make("-extensions authority -keyout authority.key -out authority.pem")?;
    make("-extensions authority -subj /CN=other -keyout other-authority.key -out other-authority.pem")?;
    make("-extensions server -CA authority.pem -CAkey authority.key -keyout server.key -out server.pem")
}
