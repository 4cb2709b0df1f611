//! Makes the modules that Cloudflare deploys, in `build/`, of the wasm that `cargo build` has made: `edge/build.sh` runs it.
//!
//! ```text
//! keystead_edge.wasm -> index_bg.wasm, and keystead.js between it and JavaScript; entry.js -> index.js
//! ```
//!
//! It touches the files that it is given, and `build/`. Invariant: what is in `build/` after it has succeeded was made of these files only.

use std::error::Error;
use std::path::Path;
use std::{env, fs};

use wasm_bindgen_cli_support::Bindgen;

/// The module between the wasm and JavaScript.
const GLUE: &str = "keystead.js";

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [wasm, entry, out] = args.as_slice() else {
        return Err("usage: keystead-edge-bundle WASM ENTRY OUT".into());
    };
    let out = Path::new(out);
    if out.exists() {
        fs::remove_dir_all(out)?;
    }
    fs::create_dir_all(out)?;
    let mut bindgen = Bindgen::new();
    // After a panic the module is started again, which the entry asks for.
    bindgen.input_path(wasm).out_name("keystead").module(true)?.typescript(false);
    bindgen.reset_state_function(true).force_enable_abort_handler(true);
    bindgen.generate(out)?;
    let glue = fs::read_to_string(out.join(GLUE))?;
    // Workers have no source phase imports; the import of a wasm file is its module.
    let imported = glue.replacen("import source ", "import ", 1);
    if imported == glue {
        return Err("wasm-bindgen has changed the import of the wasm, and this tool must follow".into());
    }
    fs::write(out.join(GLUE), imported)?;
    fs::copy(entry, out.join("index.js"))?;
    Ok(())
}
