#!/usr/bin/env python3
"""Refuses names that say nothing about their role, nested conditional expressions and commas between assignments.
Usage: names.py [--list].

A name is a noun with its role: `query_index`, `interval_half_width`, `missing_steps`. The words below are pronouns, adverbs and
participles, which say nothing without their sentence, and a constant with a prefix below names a mood in place of a bound
(kMaxWidening). The test fails if a folder has more such declarations than CEILINGS allows; a commit that removes some lowers
its row. --list prints each declaration with file and line.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CEILINGS = {"app": 71, "core/findings": 32, "core/logs": 41, "tests": 220, "widgets": 13}
WORDS = """again alone apart asked beside each every few given got had half here kept lacking least left many mine most now of
onto others over own rest said same seen since some still taken then there told upto wanted was way where who whose why""".split()
CONSTANTS = r"k(?:Most|Least|Hardly|Still|Takes|Did|Rather)[A-Z]\w*"
NAME = rf"(?P<name>(?:{'|'.join(WORDS)})_?|{CONSTANTS})\b"

# Strings and comments are removed first, and each match keeps the number of its lines.
IGNORED = re.compile(r'R"(\w*)\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*(?:.|\n)*?\*/')
NO_TYPES = "return|else|case|throw|new|delete|goto|typename|not|and|or|co_return|co_yield"
DECLARATIONS = [
    # TYPE NAME, with the end of a type: `int half = 1;`, `const T& each : list`, `float* of(int i)`
    re.compile(rf"(?<![\w.])(?!(?:{NO_TYPES})\b)[A-Za-z_][\w:]*(?:>|\]|\)|\.\.\.)*[&*]*[ ]{NAME}\s*(?:=(?!=)|[;,)({{[]|:(?!:))"),
    re.compile(rf">[&*]*[ ]{NAME}\s*(?:=(?!=)|[;,){{[]|:(?!:)|\()"),
    # A further name of a declaration: `int begin = 0, most = 0;`
    re.compile(rf",[ \n]+[*]?{NAME}\s*(?:=(?!=)|;)"),
    # An initialised capture of a lambda: `[each = std::move(x)]`
    re.compile(rf"[\[,]\s*&?{NAME}\s*=(?!=)[^\]\n]*\]\s*[({{]"),
]
BINDINGS = re.compile(r"\bauto\s*[&]*\s*\[([\w\s,]+)\]\s*[=:]")


def declarations(text):
    text = IGNORED.sub(lambda match: "\n" * match.group().count("\n") or '""', text)
    found = {(match.start("name"), match.group("name")) for pattern in DECLARATIONS for match in pattern.finditer(text)}
    for match in BINDINGS.finditer(text):
        found |= {(match.start(1) + name.start(), name.group()) for name in re.finditer(rf"\b{NAME}", match.group(1))}
    return [(text.count("\n", 0, position) + 1, name) for position, name in sorted(found)]


PLACE = r"\*?[a-z_][\w.\[\]]*(?:->[\w.\[\]]+)*"
ASSIGNED = rf"(?:{PLACE}(?: [-+*/|&]?= |\+\+|--)|(?:\+\+|--){PLACE})"
CONTROL = r"(?:else\s+|(?:if|for|while) \((?:[^()]|\([^()]*\))*\)\s*)*"
FIRST, NEXT = re.compile(rf"\s*{CONTROL}{ASSIGNED}"), re.compile(rf"\s*{ASSIGNED}")


def compound_expressions(text):
    """Returns the lines of conditional expressions inside another one, and of commas between assignments."""
    text = IGNORED.sub(lambda match: "\n" * match.group().count("\n") or '""', text)
    found, levels, begin = [], [{"opening": "{", "conditional": False}], 0
    for match in re.finditer(r"[?(){}\[\],;]", text):
        token, line = match.group(), text.count("\n", 0, match.start()) + 1
        if token in "([{":
            is_enum = token == "{" and re.search(r"\benum\b[^;{}]*$", text[begin:match.start()])
            levels.append({"opening": "enum" if is_enum else token, "conditional": False})
        elif token in ")]}" and len(levels) > 1:
            levels.pop()
        elif token in ",;":
            levels[-1]["conditional"] = False
            is_statement = levels[-1]["opening"] == "{" and FIRST.match(text, begin, match.start())
            if token == "," and is_statement and NEXT.match(text, match.end()):
                found.append((line, "a comma between expressions: use statements"))
        elif token == "?":
            outermost = max((i for i, level in enumerate(levels) if level["opening"] == "{"), default=0)
            if any(level["conditional"] for level in levels[outermost:]):
                found.append((line, "a conditional expression inside another: use if, or a function"))
            levels[-1]["conditional"] = True
        if token in "{};":
            begin = match.end()
    return found


def main():
    counts = {}
    failed = False
    for folder in ("core", "widgets", "app", "tests"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".h", ".cpp"):
                continue
            name = path.relative_to(ROOT).as_posix()
            row = "/".join(name.split("/")[:2 if folder == "core" else 1])
            text = path.read_text(encoding="utf-8")
            for line, reason in compound_expressions(text) if folder != "tests" else []:
                print(f"{name}:{line}: {reason}")
                failed = True
            for line, word in declarations(text):
                counts[row] = counts.get(row, 0) + 1
                if "--list" in sys.argv[1:]:
                    print(f"{name}:{line}: {word}")
    for row, count in sorted(counts.items()):
        if count > CEILINGS.get(row, 0):
            print(f"{row} has {count} names that are pronouns, adverbs or moods; at most {CEILINGS.get(row, 0)} are allowed")
            failed = True
    if failed:
        print("Use nouns with their role; tests/names.py --list shows the declarations")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
