#!/bin/sh
# Records the Apache web server: sh apache.sh OUT.trace
#
# Processes of one thread each (the prefork module) wait for connections on one port and serve a static file
# of 512 bytes, the same for all, as in section 8.1.1 of Boyd-Wickizer's thesis; the log of requests is off,
# as in MOSBENCH (section 5.4). `ab` makes a new connection for each request. Only the server is recorded,
# not `ab`.
#
# PROCESSES (8) says how many serve, CLIENTS (16) how many connections are open at a time, and REQUESTS
# (8000) how many there are in all; PERCOLOG and PORT: see common.sh.
. "$(dirname "$0")/common.sh"
need apache2 apache2-bin ab apache2-utils strace strace
prepare "$@"
processes=${PROCESSES:-8}
requests=${REQUESTS:-8000}

modules=/usr/lib/apache2/modules
cat >apache.conf <<END
ServerRoot $folder
ServerName localhost
Listen 127.0.0.1:$port
PidFile pid
Mutex default:$folder
ErrorLog error.log
LoadModule mpm_prefork_module $modules/mod_mpm_prefork.so
LoadModule authz_core_module $modules/mod_authz_core.so
StartServers $processes
MinSpareServers $processes
MaxSpareServers $processes
MaxRequestWorkers $processes
KeepAlive off
DocumentRoot $folder/files
<Directory />
    AllowOverride None
    Require all denied
</Directory>
<Directory $folder/files>
    Require all granted
</Directory>
END
mkdir files
head -c 512 /dev/zero | tr '\0' a >files/page.txt

# Apache ends all processes of its group when it ends, so it gets one of its own.
start "$(version apache2-bin)" \
    $as_user setsid "$(command -v apache2)" -f "$folder/apache.conf" -D FOREGROUND
ab -q -r -n "$requests" -c "${CLIENTS:-16}" "http://127.0.0.1:$port/page.txt" >ab.out
grep -q '^Complete requests: *'"$requests"'$' ab.out || fail "ab made fewer requests: $(cat ab.out)"
grep -q '^Failed requests: *0$' ab.out || fail "requests failed: $(cat ab.out)"
stop
