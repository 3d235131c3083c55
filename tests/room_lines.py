#!/usr/bin/env python3
"""Compares the lines of each room with the table tests/room_lines.txt. Usage: room_lines.py [--renew].

Without an option it fails if a room has more lines than its row allows, or if a room and the table do not match; --renew
writes the table. A commit that raises a row says why in its message.
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "tests" / "room_lines.txt"
SOURCES = ["core", "widgets", "app"]
MARGIN_SHARE, MARGIN_LINES = 0.02, 20  # a room may exceed its row by the larger of both


def lines_of_rooms():
    lines = {}
    for top in SOURCES:
        for path in (ROOT / top).rglob("*"):
            if path.suffix in (".h", ".cpp"):
                room = path.parent.relative_to(ROOT).as_posix()
                lines[room] = lines.get(room, 0) + path.read_bytes().count(b"\n")
    return lines


def read_table():
    return {room: int(lines) for lines, room in map(str.split, TABLE.read_text(encoding="utf-8").splitlines())}


def problems(lines, table):
    found = [f"{room} is not in the table" for room in sorted(lines.keys() - table.keys())]
    found += [f"{room} of the table has no sources" for room in sorted(table.keys() - lines.keys())]
    for room in sorted(lines.keys() & table.keys()):
        allowed = table[room] + max(int(table[room] * MARGIN_SHARE), MARGIN_LINES)
        if lines[room] > allowed:
            found.append(f"{room} has {lines[room]} lines; its row is {table[room]}, at most {allowed} are allowed")
    return found


def main():
    lines = lines_of_rooms()
    if "--renew" in sys.argv[1:]:
        TABLE.write_text("".join(f"{lines[room]:6} {room}\n" for room in sorted(lines)), encoding="utf-8")
        return 0
    found = problems(lines, read_table())
    for problem in found:
        print(problem)
    if found:
        print("Remove what is not needed; if the room must grow: tests/room_lines.py --renew, and say why in the commit")
        return 1
    print(f"{sum(lines.values())} lines in {len(lines)} rooms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
