#!/bin/sh
# Installs the program, the units and examples of their settings. Starts nothing.
#
#   deploy/install.sh                        from target/release/tributary, as root
#   PROGRAM=/tmp/tributary deploy/install.sh  another program
#   DESTDIR=/tmp/image deploy/install.sh     below another root
set -eu

here=$(dirname "$0")
program=${PROGRAM:-$here/../target/release/tributary}
root=${DESTDIR:-}

if [ ! -f "$program" ]; then
    echo "$program: there is no program; build it with \`cargo build --release\`, or name it with PROGRAM=" >&2
    exit 1
fi

install -D -m 0755 "$program" "$root/usr/local/bin/tributary"
for unit in "$here"/systemd/*.service; do
    install -D -m 0644 "$unit" "$root/etc/systemd/system/$(basename "$unit")"
done
install -D -m 0644 "$here/systemd/xdp.conf" "$root/usr/local/share/tributary/xdp.conf"
install -D -m 0644 "$here/sysusers.d/tributary.conf" "$root/usr/lib/sysusers.d/tributary.conf"
for settings in "$here"/etc/*.env; do
    install -D -m 0644 "$settings" "$root/etc/tributary/examples/$(basename "$settings")"
done

if [ -z "$root" ]; then
    if command -v systemd-sysusers > /dev/null; then
        systemd-sysusers tributary.conf
    fi
    if [ -d /run/systemd/system ]; then
        systemctl daemon-reload
    fi
fi
echo "installed; copy what you need from $root/etc/tributary/examples to $root/etc/tributary"
