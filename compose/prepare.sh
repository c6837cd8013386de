#!/bin/sh
# Makes the passwords and the token that compose.yaml reads: random ones, in files that only the containers' user may read.
# What is there already stays as it is.
set -eu
cd "$(dirname "$0")"
umask 077
mkdir -p secrets
made=
for name in sa_password publisher_password grafana_password http_token; do
    if [ ! -s "secrets/$name" ]; then
        # SQL Server asks for three kinds of characters; the tail makes sure of them.
        printf '%s-Aa1' "$(head -c 24 /dev/urandom | base64 | tr -d '/+=\n')" > "secrets/$name"
        made="$made $name"
    fi
done
# Files are mounted with their owner: 10001 is the user of SQL Server's image and of ours, 472 is Grafana's.
if [ "$(id -u)" = 0 ]; then
    chown 10001 secrets/sa_password secrets/publisher_password secrets/http_token
    chown 472 secrets/grafana_password
    chmod 711 secrets
else
    echo "Not root: before the first start, run" >&2
    echo "  sudo chown 10001 $PWD/secrets/sa_password $PWD/secrets/publisher_password $PWD/secrets/http_token" >&2
    echo "  sudo chown 472 $PWD/secrets/grafana_password && sudo chmod 711 $PWD/secrets" >&2
fi
echo "secrets/:${made:- nothing new}"
