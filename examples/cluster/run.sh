#!/bin/sh
# A cluster on this machine, without Docker: a store for the slot table, three nodes, a router. Tries them, adds a fourth node while a
# client writes, and stops everything. It needs redis-cli.
#
#   examples/cluster/run.sh          # or: KEYSTEAD=target/release/keystead examples/cluster/run.sh
#
# KEYSTEAD is the binary (default: the one on the PATH), PORTS eleven free ports.
set -eu

keystead=${KEYSTEAD:-keystead}
# Settings of this shell are not for these servers.
unset KEYSTEAD_HTTP KEYSTEAD_RESP KEYSTEAD_DATA KEYSTEAD_TOKEN KEYSTEAD_CONFIG KEYSTEAD_CLUSTER
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
"$keystead" --resp "127.0.0.1:$table" --http off --data "$dir/table" > "$dir/table.log" 2>&1 &
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

# A client of Redis Cluster needs no router: it is sent to the owner of a key.
redis() { redis-cli -c -h 127.0.0.1 -p "$a_resp" "$@"; }
say 'a cluster client'
for n in 1 2 3 4 5 6 7 8 9; do redis SET "user:$n" "$n" > /dev/null; done
echo "user:7 is $(redis GET user:7)"
echo 'and the nodes have, of nine keys:'
for node in "a $a_resp" "b $b_resp" "c $c_resp"; do
  echo "  ${node% *}: $(redis-cli -p "${node#* }" DBSIZE)"
done

routed=no
if "$keystead" router --help | grep -q -- '--cluster '; then
  say 'a router: one address for clients that do not route themselves'
  "$keystead" router --resp "127.0.0.1:$router_resp" --http "127.0.0.1:$router_http" > "$dir/router.log" 2>&1 &
  pids="$! $pids"
  until_ok redis-cli -p "$router_resp" GET user:7
  routed=yes
fi
# Through the router if there is one.
count() {
  if [ "$routed" = yes ]; then redis-cli -p "$router_resp" INCR visits; else redis INCR visits; fi
}

say 'a fourth node, while a client counts'
for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  count > "$dir/reply" 2>&1
  [ "$(cat "$dir/reply")" = "$n" ] || cat "$dir/reply" >> "$dir/failed"
  sleep 0.1
done &
counting=$!
"$keystead" cluster add "d=$(addresses "$d_resp" "$d_http")" > "$dir/add" &
adding=$!
until_ok grep -q 'Start it now' "$dir/add"
start_node d "$d_resp" "$d_http"
wait "$adding"
cat "$dir/add"
wait "$counting"
"$keystead" cluster status

if [ -e "$dir/failed" ]; then
  echo 'these replies were not the next number:' >&2
  cat "$dir/failed" >&2
  exit 1
fi
if [ "$(redis GET visits) $(redis GET user:7)" != '20 7' ]; then
  echo 'something was lost' >&2
  exit 1
fi
say 'done: 20 requests, 20 visits, and no key was lost'
