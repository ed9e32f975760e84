# What the recipes have in common: each reads this file with `.`.
#
# LAB in the environment is the laboratory's command (default: lab), PORT the TCP port of this machine
# that a server listens on (default: 18088).

set -eu

fail() {
    printf '%s: %s\n' "$(basename "$0")" "$1" >&2
    exit 1
}

recipes=$(cd "$(dirname "$0")" && pwd)
port=${PORT:-18088}
lab=$(command -v "${LAB:-lab}") ||
    fail "there is no ${LAB:-lab}; build it with: cargo build --release --manifest-path lab/Cargo.toml --bins (and name it in LAB)"
case $lab in
/*) ;;
*) lab=$PWD/$lab ;;
esac
# A trace holds each look for a program in the folders of PATH, and for translations: these are the same on
# every Debian.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL=C
unset MAKEFLAGS MAKELEVEL

# need COMMAND PACKAGE ...: every COMMAND is there, or the recipe names all the packages that are missing.
need() {
    missing=
    while [ $# -gt 1 ]; do
        command -v "$1" >/dev/null || missing="$missing $2"
        shift 2
    done
    [ -z "$missing" ] || fail "something is missing; install it with: apt-get install$missing"
}

# version PACKAGE: its name and version, as Debian has them.
version() {
    dpkg-query --show --showformat='${Package} ${Version}' "$1"
}

# prepare OUT.trace: makes the place of the trace absolute ($output), and a temporary folder, the current one
# from now on ($folder), which goes when the recipe ends. $as_user goes before what must not run as root; it
# is empty for ordinary users.
prepare() {
    [ $# = 1 ] || fail "usage: sh $(basename "$0") OUT.trace"
    case $1 in
    /*) output=$1 ;;
    *) output=$PWD/$1 ;;
    esac
    [ ! -e "$output" ] || fail "$output is there already; remove it, or name another file"

    server=
    recorder=
    folder=$(mktemp -d)
    trap clean_up EXIT
    trap 'exit 1' INT TERM HUP
    # A server that runs as somebody else gets here.
    chmod 755 "$folder"
    as_user=
    if [ "$(id -u)" = 0 ]; then
        as_user="setpriv --reuid=nobody --regid=nogroup --clear-groups --no-new-privs"
        chown nobody:nogroup "$folder"
    fi
    cd "$folder"
}

clean_up() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    [ -z "$recorder" ] || wait "$recorder" || true
    cd /
    rm -rf "$folder"
}

# record PACKAGE COMMAND ...: records a command until it ends.
record() {
    package=$1
    shift
    "$lab" record --names=system --package "$package" -o "$output" -- "$@"
}

# start PACKAGE COMMAND ...: begins to record a server, and waits until the number of its first process is in
# the file `pid`.
start() {
    record "$@" >server.log 2>&1 &
    recorder=$!
    wait_until server_has_started
    server=$(head -n 1 pid)
}

server_has_started() {
    kill -0 "$recorder" 2>/dev/null || fail "the server did not start: $(cat server.log)"
    [ -s pid ]
}

# stop [SIGNAL]: ends the server, and with it the recording, and tells what is in the trace.
stop() {
    kill -s "${1:-TERM}" "$server"
    server=
    wait "$recorder" || fail "the recording failed: $(cat server.log)"
    recorder=
    "$lab" trace info "$output"
}

# wait_until COMMAND ...: until COMMAND succeeds, at most a minute.
wait_until() {
    attempts=0
    until "$@"; do
        attempts=$((attempts + 1))
        [ "$attempts" -lt 600 ] || fail "waited a minute for: $*"
        sleep 0.1
    done
}
