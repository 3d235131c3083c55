#!/bin/sh
# Runs where the archive was unpacked: the programs get the loader and the C library that came with them, so that an older
# distribution starts them too. Unpacked elsewhere or moved: run it again.
set -e
here=$(cd "$(dirname "$0")" && pwd)
loader=$(ls "$here"/lib/ld-linux*)
for program in moescope moescope-cli; do
  "$loader" --library-path "$here/lib" "$here/bin/patchelf" --set-interpreter "$loader" "$here/bin/$program"
  cp "$here/start.sh" "$here/$program"
  chmod +x "$here/$program"
done
echo "Start it with   $here/moescope"
echo "Commands:       $here/moescope-cli --help"
