#!/usr/bin/env python3
"""Lists the strings of the screen by file, so that a reader can read all of them. Usage: strings.py [--renew].

Without an option the list is compared with tests/strings.txt in the repository; --renew writes that file. A string is a
literal of the sources below that consists of words: it has a space between letters, or is a capitalised word.
"""

import difflib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "strings.txt"
SOURCES = ["widgets/**/*.cpp", "widgets/**/*.h", "app/**/*.cpp", "app/**/*.h", "core/frame/*.h",
           "core/frame/*.cpp", "core/files/text/words.cpp", "core/numerics/number_format.cpp", "core/numerics/processor.cpp",
           "core/findings/*.cpp", "core/findings/texts/*.cpp", "core/findings/health/*.cpp", "core/findings/explain/*.cpp",
           "core/findings/comparison/*.cpp", "core/config/*_fields.cpp", "core/lessons/*.cpp"]
ASSETS = ["assets/panels/*.html", "assets/lessons/*.toml", "assets/exhibits/*.toml", "assets/claims/[0-9]*.toml",
          "assets/presets/**/*.toml", "assets/recipes/*.toml", "assets/palette/data_sources.txt"]
NOT_SHOWN = ["app/cli/"]  # not on the screen; tests of the command line check these texts

LITERAL = re.compile(r'//[^\n]*|/\*.*?\*/|\'(?:\\.|[^\'\\])\'|R"\((.*?)\)"|"((?:\\.|[^"\\\n])*)"', re.S)
TOML = re.compile(r'"""(.*?)"""|"((?:\\.|[^"\\\n])*)"', re.S)
COMMENT_OF_TOML = re.compile(r'^\s*#.*$', re.M)
HIDDEN_CALL = re.compile(r'(setObjectName|setProperty|property|findChild|value|QKeySequence|setValue|include|R)\(\s*$')


def reads_as_words(text):
    if re.fullmatch(r'[\w./:%\-#=]*', text) and not re.fullmatch(r'[A-Z][a-z]{2,}', text):
        return False
    return bool(re.search(r'[A-Za-z]{2,}[ ,:;.)]+.*[A-Za-z]|^[A-Z][a-z]{2,}$', text, re.S))


def literals(source):
    """Returns the literals of a source; adjacent literals are one string."""
    found, end, joined = [], None, None
    for match in LITERAL.finditer(source):
        text = match.group(1) if match.group(1) is not None else match.group(2)
        if text is None:
            continue
        before = source[max(0, match.start() - 40):match.start()]
        if end is not None and not source[end:match.start()].strip():
            joined[0] += text
        elif not HIDDEN_CALL.search(before):
            joined = [text]
            found.append(joined)
        else:
            joined = [""]
        end = match.end()
    return [text[0] for text in found]


def strings_of(path):
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".html":
        return [" ".join(paragraph.split()) for paragraph in source.split("</p>") if reads_as_words(paragraph)]
    if path.suffix == ".txt":
        return [line.split(" = ", 1)[1] for line in source.splitlines() if " = " in line]
    if path.suffix != ".toml":
        return [text for text in literals(source) if reads_as_words(text)]
    source = COMMENT_OF_TOML.sub("", source)
    texts = [(m.group(1) if m.group(1) is not None else m.group(2)) for m in TOML.finditer(source)]
    return [re.sub(r'\\\n\s*|\s*\n\s*', ' ', text).strip() for text in texts if reads_as_words(text)]


def listing():
    lines = []
    for pattern in SOURCES + ASSETS:
        paths = sorted(ROOT.glob(pattern))
        if not paths:
            sys.exit(f"{pattern}: no such file; tests/strings.py lists the sources of the screen")
        for path in paths:
            name = path.relative_to(ROOT).as_posix()
            if any(name.startswith(hidden) for hidden in NOT_SHOWN):
                continue
            texts = list(dict.fromkeys(strings_of(path)))
            if texts:
                lines += ["", name] + ["  " + text for text in texts]
    return "\n".join(lines).lstrip("\n") + "\n"


def main():
    now = listing()
    if "--renew" in sys.argv[1:]:
        LIST.write_text(now, encoding="utf-8")
        return 0
    kept = LIST.read_text(encoding="utf-8")
    if now == kept:
        print(f"{sum(line.startswith('  ') for line in now.splitlines())} strings")
        return 0
    sys.stdout.writelines(difflib.unified_diff(kept.splitlines(True), now.splitlines(True), "tests/strings.txt", "sources", n=1))
    print("Read the strings that changed, then: tests/strings.py --renew")
    return 1


if __name__ == "__main__":
    sys.exit(main())
