#!/bin/sh
# Installs the program, its manual pages and completions, the systemd units and examples of their settings.
# Starts nothing. scripts/package.sh and deploy/oci/Containerfile make their packages with it.
#
#   deploy/install.sh                         from target/release/tributary, as root, below /usr/local
#   PROGRAM=/tmp/tributary deploy/install.sh  another program
#   PREFIX=/usr deploy/install.sh             where packages have their files
#   DESTDIR=/tmp/image deploy/install.sh      below another root
set -eu

here=$(dirname "$0")
program=${PROGRAM:-$here/../target/release/tributary}
root=${DESTDIR:-}
prefix=${PREFIX:-/usr/local}

if [ ! -f "$program" ]; then
    echo "$program: there is no program; build it with \`cargo build --release\`, or name it with PROGRAM=" >&2
    exit 1
fi

# Copies files into a directory below the prefix.
files() {
    directory=$1
    shift
    install -d -m 0755 "$root$prefix/$directory"
    install -m 0644 "$@" "$root$prefix/$directory"
}

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
"$program" man "$made/man"
"$program" completions bash > "$made/tributary"
"$program" completions fish > "$made/tributary.fish"
"$program" completions zsh > "$made/_tributary"

install -D -m 0755 "$program" "$root$prefix/bin/tributary"
files lib/systemd/system "$here"/systemd/*.service
files lib/sysusers.d "$here/sysusers.d/tributary.conf"
files lib/tmpfiles.d "$here/tmpfiles.d/tributary.conf"
files share/tributary "$here/systemd/xdp.conf"
files share/man/man1 "$made"/man/*
files share/bash-completion/completions "$made/tributary"
files share/fish/vendor_completions.d "$made/tributary.fish"
# Debian's zsh reads the files of packages in a directory of its own.
if [ "$prefix" = /usr ]; then
    files share/zsh/vendor-completions "$made/_tributary"
else
    files share/zsh/site-functions "$made/_tributary"
fi
# The documentation, laid out as in the repository, so that its links hold.
(cd "$here/.." && find README.md ARCHITECTURE.md CONTRIBUTING.md docs examples proto/README.md -type f ! -path '*/sums/*' ! -path '*/__pycache__/*') |
    while read -r page; do
        install -D -m 0644 "$here/../$page" "$root$prefix/share/doc/tributary/$page"
    done
files share/doc/tributary/examples/etc "$here"/etc/*.env
for kind in prometheus grafana; do
    if [ -d "$here/$kind" ]; then
        files "share/doc/tributary/examples/$kind" "$here/$kind"/*
    fi
done

if [ -z "$root" ]; then
    if command -v systemd-sysusers > /dev/null; then
        systemd-sysusers tributary.conf
    fi
    if command -v systemd-tmpfiles > /dev/null; then
        systemd-tmpfiles --create tributary.conf
    fi
    if [ -d /run/systemd/system ]; then
        systemctl daemon-reload
    fi
fi
echo "installed; copy what you need from $root$prefix/share/doc/tributary/examples/etc to $root/etc/tributary"
