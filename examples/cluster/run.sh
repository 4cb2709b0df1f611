#!/bin/sh
# A cluster on this machine, without Docker: a store for the slot table, three nodes, a router. Tries them, adds a fourth node while a
# client writes, and stops everything.
#
#   examples/cluster/run.sh          # or: KEYSTEAD=target/release/keystead examples/cluster/run.sh
#
# KEYSTEAD is the binary (default: the one on the PATH), PORTS eleven free ports.
set -eu

keystead=${KEYSTEAD:-keystead}
# Settings of this shell are not for these servers.
unset KEYSTEAD_HTTP KEYSTEAD_RESP KEYSTEAD_DATA KEYSTEAD_TOKEN KEYSTEAD_CONFIG
# shellcheck disable=SC2086
set -- ${PORTS:-7400 7401 7402 7403 7404 7405 7406 7407 7408 7409 7410}
table=$1 router_resp=$2 router_http=$3
a_resp=$4 a_http=$5 b_resp=$6 b_http=$7 c_resp=$8 c_http=$9
shift 9
d_resp=$1 d_http=$2

dir=$(mktemp -d)
pids=
stop() {
  for pid in $pids; do kill "$pid" 2>/dev/null || true; done
  for pid in $pids; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$dir"
}
trap stop EXIT
trap 'exit 1' INT TERM

say() { printf '\n== %s\n' "$1"; }

# Waits up to 30 seconds for a command to succeed.
until_ok() {
  tries=300
  until "$@" >/dev/null 2>&1; do
    tries=$((tries - 1))
    if [ "$tries" = 0 ]; then echo "this did not succeed within 30 seconds: $*" >&2; exit 1; fi
    sleep 0.1
  done
}

addresses() { echo "redis://127.0.0.1:$1,http://127.0.0.1:$2"; }

# start_node NAME RESP_PORT HTTP_PORT
start_node() {
  "$keystead" --node-id "$1" --advertise "$(addresses "$2" "$3")" \
    --resp "127.0.0.1:$2" --http "127.0.0.1:$3" --data "$dir/$1" > "$dir/$1.log" 2>&1 &
  pids="$! $pids"
}

say 'the store of the slot table (here one more Keystead; etcd, PostgreSQL or Redis do as well)'
KEYSTEAD_CLUSTER='' "$keystead" --resp "127.0.0.1:$table" --http off --data "$dir/table" > "$dir/table.log" 2>&1 &
pids=$!
export KEYSTEAD_CLUSTER="redis://127.0.0.1:$table"
init() {
  "$keystead" cluster init --name example --node "a=$(addresses "$a_resp" "$a_http")" \
    --node "b=$(addresses "$b_resp" "$b_http")" --node "c=$(addresses "$c_resp" "$c_http")"
}
until_ok init

say 'three nodes'
start_node a "$a_resp" "$a_http"
start_node b "$b_resp" "$b_http"
start_node c "$c_resp" "$c_http"
until_ok "$keystead" cluster status
"$keystead" cluster status

say 'a router: one address for all of them'
"$keystead" router --resp "127.0.0.1:$router_resp" --http "127.0.0.1:$router_http" > "$dir/router.log" 2>&1 &
pids="$! $pids"
until_ok curl -fsS "http://127.0.0.1:$router_http/healthz"
router=http://127.0.0.1:$router_http

put() { curl -fsS -X PUT -H 'content-type: application/json' -d "$2" "$router/kv/$1" > /dev/null; }
for n in 1 2 3 4 5 6 7 8 9; do put "user:$n" "{\"n\":$n}"; done
echo 'user:7 is'
curl -fsS "$router/kv/user:7"
echo
echo 'and the nodes have, of nine documents:'
for node in "a $a_http" "b $b_http" "c $c_http"; do
  set -- $node
  echo "  $1: $(curl -fsS "http://127.0.0.1:$2/kv?prefix=user:" | grep -o '"user:' | wc -l)"
done

say 'a fourth node, while a client counts'
for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  curl -fsS -X POST -d '["INCR","visits"]' "$router/" > /dev/null || echo "a request failed" >> "$dir/failed"
  sleep 0.1
done &
counting=$!
"$keystead" cluster add "d=$(addresses "$d_resp" "$d_http")" &
adding=$!
until_ok sh -c "'$keystead' cluster status | grep -q '^  d '"
start_node d "$d_resp" "$d_http"
wait "$adding"
wait "$counting"
"$keystead" cluster status
visits=$(curl -fsS -X POST -d '["GET","visits"]' "$router/")
echo "visits: $visits"
if [ -e "$dir/failed" ] || [ "$visits" != '{"result":"20"}' ]; then
  echo 'a request failed, or was counted more or less than one time' >&2
  exit 1
fi
if [ "$(curl -fsS "$router/kv/user:7" | grep -o '"n":7')" != '"n":7' ]; then echo 'user:7 is lost' >&2; exit 1; fi

say 'done: 20 requests, 20 visits, and no document was lost'
