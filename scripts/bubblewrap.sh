#!/bin/sh
# Provide bubblewrap for the tests: from the system, else installed, else unpacked into .cache.
# Never fails: the tests list at their end what could not run without it.
unpacked=.cache/bwrap
command -v bwrap >/dev/null && exit 0
[ -x "$unpacked/usr/bin/bwrap" ] && exit 0
command -v apt-get >/dev/null || { echo "bubblewrap is missing, and there is no apt-get" >&2; exit 0; }
echo "Getting bubblewrap for the tests ..." >&2
if [ "$(id -u)" = 0 ]; then
    export DEBIAN_FRONTEND=noninteractive
    timeout 120 apt-get update -qq >/dev/null 2>&1
    timeout 120 apt-get install -y -qq --no-install-recommends bubblewrap >/dev/null 2>&1 && exit 0
fi
mkdir -p "$unpacked" && cd "$unpacked" || exit 0
timeout 120 apt-get download -qq bubblewrap >/dev/null 2>&1
for package in bubblewrap_*.deb; do
    [ -f "$package" ] && dpkg-deb -x "$package" . && exit 0
done
echo "bubblewrap cannot be had here (try: apt-get install bubblewrap)" >&2
exit 0
