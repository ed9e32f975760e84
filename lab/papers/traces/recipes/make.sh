#!/bin/sh
# Records a parallel build of GNU sed 4.9: sh make.sh OUT.trace
#
# The source is the upstream archive of Debian 12's package, which APT fetches and checks; SOURCE names another
# copy of sed-4.9.tar.* to take instead. JOBS (8) says how many jobs make runs at a time; PERCOLOG: see
# common.sh.
. "$(dirname "$0")/common.sh"
need gcc gcc make make strace strace xz xz-utils
case ${SOURCE:-/} in /*) ;; *) SOURCE=$PWD/$SOURCE ;; esac
prepare "$@"

if [ -z "${SOURCE:-}" ]; then
    # APT's own lists stay as they are: most systems' have no `deb-src` line.
    mkdir -p apt/lists/partial apt/cache/archives/partial
    cat >apt/conf <<END
Dir::Etc::sourcelist "$folder/apt/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "$folder/apt/lists";
Dir::Cache "$folder/apt/cache";
APT::Sandbox::User "";
END
    echo "deb-src http://deb.debian.org/debian bookworm main" >apt/sources.list
    export APT_CONFIG="$folder/apt/conf"
    apt-get --quiet update >apt/log 2>&1 &&
        apt-get --quiet source --download-only sed >>apt/log 2>&1 ||
        fail "no source; name a copy of sed-4.9.tar.xz in SOURCE. APT said: $(cat apt/log)"
    SOURCE=$(find "$folder" -name 'sed_4.9.orig.tar.xz')
fi
tar xf "$SOURCE"
cd sed-4.9
./configure --quiet --disable-nls >../configure.log 2>&1 ||
    fail "configure failed: $(cat ../configure.log)"
record "GNU sed 4.9" make "-j${JOBS:-8}" >../make.log 2>&1 || fail "make failed: $(cat ../make.log)"
"$lab" trace info "$output"
