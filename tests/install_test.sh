#!/usr/bin/env bash
# Installs the build into an empty folder, runs the installed programs, and makes the Debian package.
#   install_test.sh BUILD-FOLDER
set -euo pipefail
build=$1
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
unset DISPLAY WAYLAND_DISPLAY QT_QPA_PLATFORM
export HOME=$root/home XDG_RUNTIME_DIR=$root/run
mkdir -p "$HOME" "$XDG_RUNTIME_DIR"
chmod 700 "$XDG_RUNTIME_DIR"
fail() { echo "FAILED: $*" >&2; exit 1; }

cmake --install "$build" --prefix "$root/usr" >/dev/null
cd /
bin=$root/usr/bin share=$root/usr/share
"$bin/moescope-cli" train --preset nano --steps 3 --out "$root/run.moescope" >/dev/null
"$bin/moescope" "$root/run.moescope" --screenshot "$root/run.png" --size 1280x800 || fail "no picture"
[ -s "$root/run.png" ] || fail "the picture is empty"

# Checks that the man page has every option of --help.
check_page() {
  local page=$share/man/man1/$1.1 option
  shift
  [ -f "$page" ] || fail "no $page"
  groff -man -ww -Tutf8 "$page" >/dev/null 2>"$root/groff.log" || fail "$page: $(head -3 "$root/groff.log")"
  sed 's/\\-/-/g' "$page" >"$root/page"
  for option in $("$@" --help | grep -oE '(^|[ ,])--[a-z][a-z0-9-]+' | tr -d ' ,' | sort -u); do
    grep -qe "$option" "$root/page" || fail "$page lacks $option"
  done
}
check_page moescope "$bin/moescope"
check_page moescope-cli "$bin/moescope-cli"
for command in $("$bin/moescope-cli" --help | sed -n '/^Subcommands:/,/^$/p' | sed -nE 's/^  ([a-z-]+) .*/\1/p'); do
  check_page "moescope-cli-$command" "$bin/moescope-cli" "$command"
done

desktop-file-validate "$share/applications/moescope.desktop"
grep -q "MimeType=$(sed -nE 's/.*mime-type type="([^"]+)".*/\1/p' "$share/mime/packages/moescope.xml");" \
  "$share/applications/moescope.desktop" || fail "the desktop entry does not open recordings"

(cd "$root" && cpack --config "$build/CPackConfig.cmake" -G DEB -B "$root/package" >"$root/cpack.log" 2>&1) ||
  fail "$(tail -5 "$root/cpack.log")"
deb=$(ls "$root"/package/moescope_*.deb)
depends=$(dpkg-deb -f "$deb" Depends)
for needed in libqt6widgets6 libopenblas libsqlite3-0 libsimdjson qt6-qpa-plugins; do
  [[ $depends == *$needed* ]] || fail "the package does not depend on $needed: $depends"
done
dpkg-deb -c "$deb" >"$root/contents"
for file in bin/moescope bin/moescope-cli share/applications/moescope.desktop share/man/man1/moescope-cli-train.1 \
  share/icons/hicolor/scalable/apps/moescope.svg share/mime/packages/moescope.xml share/doc/moescope/copyright; do
  grep -q " \./usr/$file$" "$root/contents" || fail "the package lacks $file"
done
echo "installed, used, packed: $(basename "$deb"), $(du -k "$deb" | cut -f1) kB"
