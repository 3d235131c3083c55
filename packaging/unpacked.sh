#!/bin/sh
# Runs in the folder of the unpacked archive: sets the loader and the C library of the archive in the programs, so that they
# start on older distributions, too. Run it again after moving the folder.
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
