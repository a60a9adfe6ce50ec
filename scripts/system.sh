#!/bin/sh
# Finds (or, as root on Debian, installs) the programs that the tests use and says which.
set -u
missing=""
command -v tinyproxy >/dev/null 2>&1 || missing="$missing tinyproxy-bin"
command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 \
    || command -v google-chrome >/dev/null 2>&1 || missing="$missing chromium"
if [ -n "$missing" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing:$missing"
    # shellcheck disable=SC2086
    { apt-get install -y -qq $missing || { apt-get update -qq && apt-get install -y -qq $missing; }; } >/dev/null 2>&1
fi
for program in tinyproxy chromium; do
    path=$(command -v "$program" 2>/dev/null) && echo "$program: $path" || echo "$program: not found"
done
