#!/bin/sh
# Records the PostgreSQL database server: sh postgresql.sh OUT.trace
#
# The server forks for each connection. `pgbench` first reads over connections that stay (a query in each
# transaction), then reads and writes over a new connection for each transaction. The database is made
# before the recording. Only the server is recorded, not `pgbench`.
#
# CLIENTS (8) says how many connections there are at a time, READS (200) how many transactions each makes in
# the first part, and WRITES (60) in the second; PERCOLOG and PORT: see common.sh.
. "$(dirname "$0")/common.sh"
# The newest version that is installed.
for bin in /usr/lib/postgresql/*/bin; do
    PATH=$bin:$PATH
done
need postgres postgresql initdb postgresql pgbench postgresql-contrib strace strace
prepare "$@"
clients=${CLIENTS:-8}

$as_user initdb --pgdata data --username bench --auth trust --no-sync --locale C --encoding UTF8 >init.log
cat >>data/postgresql.conf <<END
listen_addresses = '127.0.0.1'
port = $port
unix_socket_directories = ''
external_pid_file = '$folder/pid'
max_connections = $((clients + 10))
fsync = off
END
export PGHOST=127.0.0.1 PGPORT="$port" PGUSER=bench PGDATABASE=postgres
$as_user pg_ctl --pgdata data --wait --log server.log start >>init.log
$as_user pgbench --initialize --scale 1 --quiet >>init.log 2>&1
$as_user pg_ctl --pgdata data --wait stop >>init.log
[ ! -e pid ] || fail "the server that made the database is still there"

start "$(version "$(dpkg-query --search "$(command -v postgres)" | cut -d : -f 1)")" \
    $as_user "$(command -v postgres)" -D "$folder/data"
wait_until pg_isready --quiet
load() {
    pgbench --no-vacuum --client "$clients" "$@" >>bench.log 2>&1 || fail "pgbench failed: $(cat bench.log)"
}
load --select-only --transactions "${READS:-200}"
load --connect --transactions "${WRITES:-60}"
stop INT
