#!/usr/bin/env python3
"""Gives the seeds of the fuzzer of recordings the tables and columns of the present format. Usage: renew_recordings.py MOESCOPE_CLI

Seeds without them are refused at once, so that the fuzzer would not reach the code behind. New columns are NULL. The named seeds
in tests/fuzz/recording and those in tests/fuzz/recording.tar.xz are changed; views, virtual tables, computed columns and files
that SQLite refuses stay as they are, because they are what such a seed is about.
"""

import pathlib
import re
import sqlite3
import subprocess
import sys
import tempfile

FUZZ = pathlib.Path(__file__).resolve().parent


def present_tables(cli, folder):
    """The statement that creates each table, without comments, from a recording that `cli` writes."""
    log, recording = folder / "log.jsonl", folder / "log.moescope"
    log.write_text('{"step": 0, "loss": 2.0}\n', encoding="utf-8")
    subprocess.run([cli, "import", log, "--out", recording], check=True, stdout=subprocess.DEVNULL)
    with sqlite3.connect(recording) as database:
        tables = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
    return {name: " ".join(re.sub(r"--[^\n]*", "", sql).split()) for name, sql in tables}


def columns(database, table):
    return {row[1]: row[6] for row in database.execute(f'PRAGMA table_xinfo("{table}")')}  # 6: not 0 if it is computed


def add_columns(database, table, sql):
    """Makes the table again if it lacks columns: those of the format in their order, then the others of the seed."""
    with sqlite3.connect(":memory:") as empty:
        empty.execute(sql)
        wanted = columns(empty, table)
    present = columns(database, table)
    if any(present.values()) or not wanted.keys() - present.keys():
        return
    dependents = database.execute(
        "SELECT sql FROM sqlite_master WHERE tbl_name = ? AND type IN ('trigger', 'index') AND sql IS NOT NULL", (table,))
    dependents = [row[0] for row in dependents.fetchall()]
    database.execute(f'ALTER TABLE "{table}" RENAME TO old_table')
    database.execute(sql)
    for name in present.keys() - wanted.keys():
        database.execute(f'ALTER TABLE "{table}" ADD COLUMN "{name}"')
    names = ", ".join(f'"{name}"' for name in present)
    database.execute(f'INSERT INTO "{table}" ({names}) SELECT {names} FROM old_table')
    database.execute("DROP TABLE old_table")
    for dependent in dependents:
        database.execute(dependent)


def renew(path, tables):
    """Returns whether the seed was changed."""
    before = path.read_bytes()
    database = sqlite3.connect(path, isolation_level=None)
    try:
        database.execute("PRAGMA legacy_alter_table = ON")  # triggers and views keep the names they were written with
        database.execute("BEGIN")
        kinds = {name: (kind, sql) for name, kind, sql in database.execute("SELECT name, type, sql FROM sqlite_master")}
        for table, sql in tables.items():
            kind, old_sql = kinds.get(table, (None, ""))
            if kind is None:
                database.execute(sql)
            elif kind == "table" and not old_sql.upper().startswith("CREATE VIRTUAL"):
                add_columns(database, table, sql)
        database.execute("COMMIT")
        changed = True
    except (sqlite3.Error, UnicodeDecodeError):
        changed = False
    database.close()
    if not changed:
        path.write_bytes(before)
    return changed and path.read_bytes() != before


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    cli = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        tables = present_tables(cli, work)
        named = sorted((FUZZ / "recording").iterdir())
        print(f"{sum(renew(path, tables) for path in named)} of {len(named)} named seeds changed")

        archive, found = FUZZ / "recording.tar.xz", work / "found"
        found.mkdir()
        subprocess.run(["tar", "xf", archive], cwd=found, check=True)
        seeds = sorted(path for path in found.iterdir() if path.is_file())
        changed = sum(renew(path, tables) for path in seeds)
        print(f"{changed} of {len(seeds)} seeds in the archive changed")
        if changed:
            names = [path.name for path in seeds]
            subprocess.run(["tar", "--create", "--xz", "--owner=0", "--group=0", "--mtime=2026-01-01", f"--file={archive}", *names],
                           cwd=found, check=True)


if __name__ == "__main__":
    main()
