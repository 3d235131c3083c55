#!/bin/sh
# Starts the program with the name of this script, with the plugins and fonts of the archive.
self=$(readlink -f "$0")
here=$(dirname "$self")
export QT_PLUGIN_PATH="$here/plugins"
[ -e /etc/fonts/fonts.conf ] || export FONTCONFIG_FILE="$here/fonts/fonts.conf"
exec "$here/bin/$(basename "$0")" "$@"
