#!/bin/sh
# Starts OpenMPI's daemon on a host of the testbed, as ssh would on a machine: HOST COMMAND...
# TRIBUTARY_HOSTS lists the hosts and their network namespaces: ADDRESS=PATH, one per word.
host=$1
shift
for entry in $TRIBUTARY_HOSTS; do
    if [ "${entry%%=*}" = "$host" ]; then
        # Daemons of one machine would share their files, by the machine's name.
        TMPDIR=$TMPDIR/$host
        export TMPDIR
        mkdir -p "$TMPDIR" || exit 1
        exec nsenter --net="${entry#*=}" sh -c "$*"
    fi
done
echo "error: there is no host $host" >&2
exit 1
