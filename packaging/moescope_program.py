"""The program of MoEScope in a wheel: its folder, and the commands that pip installs."""

import os
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
CLI = str(FOLDER / "bin" / "moescope-cli")


def environment():
    """Returns the environment of this process with Qt's plugins and the fonts of the wheel."""
    own = dict(os.environ, QT_PLUGIN_PATH=str(FOLDER / "plugins"))
    if not os.path.exists("/etc/fonts/fonts.conf"):
        own["FONTCONFIG_FILE"] = str(FOLDER / "fonts" / "fonts.conf")
    return own


def _start(name):
    path = str(FOLDER / "bin" / name)
    os.execve(path, [path] + sys.argv[1:], environment())


def start_cli():
    _start("moescope-cli")


def start_window():
    _start("moescope")
