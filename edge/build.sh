#!/bin/sh
# Builds the worker: the modules in build/, with build/index.js as the entry. Nothing is compiled again while no source has changed.
# WASM_CARGO is the cargo that compiles for wasm32, if it is not the one for the tool beside it.
set -eu
cd "$(dirname "$0")"
target=${CARGO_TARGET_DIR:-target}
# The tool compiles while the linker of the wasm needs one core only.
cargo build --locked -p keystead-edge-bundle &
tool=$!
${WASM_CARGO:-cargo} build --locked --release --target wasm32-unknown-unknown
wait "$tool"
"$target/debug/keystead-edge-bundle" "$target/wasm32-unknown-unknown/release/keystead_edge.wasm" src/entry.js build
bytes=$(wc -c <build/keystead_bg.wasm)
packed=$(gzip -9 -c build/*.wasm build/*.js | wc -c)
echo "wasm: $bytes bytes, $packed compressed with its JavaScript"
if [ "$packed" -gt 3000000 ]; then
  echo 'the wasm is over 3 MB compressed, which a free account cannot deploy' >&2
  exit 1
fi
