#!/bin/sh
# Builds the worker: build/index.js and its wasm. Nothing is built again while no source has changed.
set -eu
cd "$(dirname "$0")"
command -v worker-build >/dev/null || cargo install --locked worker-build@0.8.7
worker-build --release "$@"
bytes=$(wc -c <build/index_bg.wasm)
packed=$(gzip -9 -c build/index_bg.wasm | wc -c)
echo "wasm: $bytes bytes, $packed compressed"
if [ "$packed" -gt 3000000 ]; then
  echo 'the wasm is over 3 MB compressed, which a free account cannot deploy' >&2
  exit 1
fi
