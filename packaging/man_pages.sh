#!/usr/bin/env bash
# Makes man pages of both programs and of each command from the output of --help, so that no option can be missing.
#   man_pages.sh MOESCOPE MOESCOPE-CLI OUT-FOLDER
set -euo pipefail
window=$1 cli=$2 out=$3
mkdir -p "$out"
unset DISPLAY WAYLAND_DISPLAY  # --help needs no display
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HOME=/HOME XDG_RUNTIME_DIR=$folder  # the pages show HOME as ~
unset XDG_DATA_HOME XDG_CONFIG_HOME

# page NAME WHAT-IT-IS PROGRAM [ARGUMENT]
page() {
  local name=$1 what=$2
  shift 2
  printf '#!/bin/sh\nexec %s "$@"\n' "$(printf '%q ' "$@")" >"$folder/$name"
  chmod +x "$folder/$name"
  help2man --no-info --section=1 --name="$what" --source=MoEScope --manual=MoEScope --version-string="$version" \
    "$folder/$name" | sed 's#/HOME/#~/#g' >"$out/$name.1"
}

version=$("$cli" --version | awk '{print $NF}')
page moescope "train a small mixture-of-experts model and see inside" "$window"
page moescope-cli "MoEScope without a window" "$cli"
commands=$("$cli" --help | sed -n '/^Subcommands:/,/^$/p' | sed -nE 's/^  ([a-z-]+) +(.*)/\1|\2/p')
[ -n "$commands" ] || { echo "man_pages.sh: $cli --help names no commands" >&2; exit 1; }
while IFS='|' read -r command what; do
  page "moescope-cli-$command" "${what,}" "$cli" "$command" </dev/null
done <<<"$commands"
