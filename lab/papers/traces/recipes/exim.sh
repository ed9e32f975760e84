#!/bin/sh
# Records the Exim mail server: sh exim.sh OUT.trace
#
# Exim listens on a port of this machine and forks for each connection; every client has a user of its own,
# to whom it sends 10 messages of 20 bytes in each connection, as in MOSBENCH (section 5.2). Exim puts
# each message into split spool directories, appends it to the user's file, and deletes it from the spool.
# There is no look-up in the DNS. Only the server is recorded, not the clients.
#
# CLIENTS (16) and CONNECTIONS (of each client, 6) say how many there are; PERCOLOG and PORT: see common.sh.
. "$(dirname "$0")/common.sh"
need exim4 exim4-daemon-light python3 python3 strace strace
prepare "$@"
clients=${CLIENTS:-16}
connections=${CONNECTIONS:-6}

users=$(seq -s : 1 "$clients" | sed 's/[0-9][0-9]*/user&/g')
cat >exim.conf <<END
primary_hostname = localhost
local_interfaces = 127.0.0.1
daemon_smtp_ports = $port
spool_directory = $folder/spool
log_file_path = $folder/log/%s
pid_file_path = $folder/pid
split_spool_directory
# No process gains or gives up anything, so none executes Exim again in order to deliver.
exim_user = $($as_user id -un)
exim_group = $($as_user id -gn)
deliver_drop_privilege
smtp_accept_max = 0
smtp_accept_queue_per_connection = 0
disable_ipv6
host_lookup =
rfc1413_query_timeout = 0s
keep_environment =
acl_smtp_rcpt = accept

begin routers
users:
  driver = accept
  local_parts = $users
  transport = user_files

begin transports
user_files:
  driver = appendfile
  file = $folder/mail/\$local_part_data
  create_directory = false
END
$as_user mkdir spool log mail

start "$(version exim4-daemon-light)" $as_user "$(command -v exim4)" -C "$folder/exim.conf" -bdf
python3 "$recipes/mail.py" "$port" "$clients" "$connections"
spool_is_empty() {
    [ -z "$(find spool/input -type f 2>/dev/null)" ]
}
wait_until spool_is_empty
delivered=$(cat mail/* | grep -c '^From ')
[ "$delivered" = $((clients * connections * 10)) ] || fail "only $delivered messages were delivered"
stop
