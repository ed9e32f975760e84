#!/bin/sh
# Records the memcached key-value store: sh memcached.sh OUT.trace
#
# One server with THREADS (8) threads answers `memcaslap`, which gets and sets small values over CLIENTS (16)
# connections, REQUESTS (20000) in all. Only the server is recorded, not `memcaslap`. PERCOLOG, PORT: see
# common.sh.
. "$(dirname "$0")/common.sh"
need memcached memcached memcaslap libmemcached-tools strace strace
prepare "$@"

# Keys of 16 bytes, values of 64, one `set` (0) for nine `get`s (1).
printf '%s\n' key '16 16 1' value '64 64 1' cmd '0 0.1' '1 0.9' >load.conf

start "$(version memcached)" $as_user "$(command -v memcached)" \
    -l 127.0.0.1 -p "$port" -U 0 -t "${THREADS:-8}" -P "$folder/pid"
memcaslap --servers "127.0.0.1:$port" --cfg_cmd load.conf --threads 2 --concurrency "${CLIENTS:-16}" \
    --execute_number "${REQUESTS:-20000}" >client.log || fail "memcaslap failed: $(cat client.log)"
stop
