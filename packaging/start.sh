#!/bin/sh
# Starts the program of its own name with what came in the archive.
self=$(readlink -f "$0")
here=$(dirname "$self")
export QT_PLUGIN_PATH="$here/plugins"
[ -e /etc/fonts/fonts.conf ] || export FONTCONFIG_FILE="$here/fonts/fonts.conf"
exec "$here/bin/$(basename "$0")" "$@"
