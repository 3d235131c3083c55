#!/usr/bin/env python3
"""Refuses names that say nothing about their role, conditional expressions inside others and commas between expressions,
and functions that are defined twice.

A name is a noun with its role: `query_index`, `interval_half_width`, `missing_steps`. The words below are pronouns, adverbs and
participles, which say nothing without their sentence, and a constant with a prefix below names a mood in place of a bound
(kMaxWidening). A name that begins with "of" or "each" has lost its noun: `layer_loads`, not `of_layer`.

Several files of a library are compiled as one (cmake/together.cmake), and which ones depends on their number. A function of
an unnamed namespace therefore must not have the name and parameters of another such function or of a function in a header.
"""

import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORDS = """again alone apart asked beside each every few given got had half here kept lacking least left many mine most now of
onto others over own rest said same seen since some still taken then there told upto wanted was way where who whose why""".split()
CONSTANTS = r"k(?:Most|Least|Hardly|Still|Takes|Did|Rather)[A-Z]\w*"
NAME = rf"(?P<name>(?:{'|'.join(WORDS)})_?|{CONSTANTS})\b"

# Strings and comments are removed first, and each match keeps the number of its lines.
IGNORED = re.compile(r'R"(\w*)\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*(?:.|\n)*?\*/')
NO_TYPES = "return|else|case|throw|new|delete|goto|typename|not|and|or|co_return|co_yield"
DECLARATIONS = [
    # TYPE NAME, with the end of a type: `int half = 1;`, `const T& each : list`, `float* of(int i)`
    re.compile(rf"(?<![\w.])(?!(?:{NO_TYPES})\b)[A-Za-z_][\w:]*(?:>|\]|\)|\.\.\.)*[&*]*[ ][*&]*{NAME}\s*(?:=(?!=)|[;,)({{[]|:(?!:))"),
    re.compile(rf">[&*]*[ ]{NAME}\s*(?:=(?!=)|[;,){{[]|:(?!:)|\()"),
    # A further name of a declaration: `int begin = 0, most = 0;`
    re.compile(rf",[ \n]+[*]?{NAME}\s*(?:=(?!=)|;)"),
    # An initialised capture of a lambda: `[each = std::move(x)]`
    re.compile(rf"[\[,]\s*&?{NAME}\s*=(?!=)[^\]\n]*\]\s*[({{]"),
]
PHRASE = re.compile(r"\b(?:(?:of|each|the)_\w*|(?:of|each)[A-Z]\w*|k(?:Of|Each)(?:[A-Z]\w*)?|kHalf|each|half)\b")
BINDINGS = re.compile(r"\bauto\s*[&]*\s*\[([\w\s,]+)\]\s*[=:]")


def without_texts(text):
    return IGNORED.sub(lambda match: re.sub(r"[^\n]", " " if match.group()[0] == "/" else '"', match.group()), text)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def declarations(text):
    found = {(match.start("name"), match.group("name")) for pattern in DECLARATIONS for match in pattern.finditer(text)}
    found |= {(match.start(), match.group()) for match in PHRASE.finditer(text)}
    for match in BINDINGS.finditer(text):
        found |= {(match.start(1) + name.start(), name.group()) for name in re.finditer(rf"\b{NAME}", match.group(1))}
    return [(line_of(text, position), name) for position, name in sorted(found)]


PLACE = r"\*?[a-z_]\w*(?:(?:\.|->|::)\w+|\[\]|\(\))*"
EXPRESSION = rf"\s*(?:{PLACE}(?:\s*(?:[-+*/|&^%]|<<|>>)?=\s|\+\+|--|\s*<<|\s*$)|(?:\+\+|--|\(\)){PLACE})"
CONTROL = r"(?:\s*(?:else|(?:if|for|while)(?: constexpr)? \(\)))*(?:\s*return\b)?"
COMMA_STATEMENT, TEMPLATE_ARGUMENT = re.compile(rf"{CONTROL}{EXPRESSION}"), re.compile(r"\w<[\w:]+$")
OPENS_VALUE = re.compile(r"(?:\benum\b[^;{}()]*|\breturn\s*|[=,(]\s*|[\w>\])])$")


class Level:
    def __init__(self, opening):
        self.opening, self.conditional = opening, False
        self.statement, self.commas = "", []  # the text so far, with empty brackets, and positions of its commas

    def end_statement(self):
        self.statement, self.commas = "", []


def is_value(levels, before):
    if levels[-1].opening == "value" and before.rstrip().endswith("{"):
        return True
    return bool(OPENS_VALUE.search(before))


def compound_expressions(text):
    """Yields position, token and reason of conditional expressions inside another one and of commas between expressions."""
    levels, begin = [Level("{")], 0
    for match in re.finditer(r"[?(){}\[\],;]", text):
        token, level = match.group(), levels[-1]
        if level.opening == "{":
            level.statement += text[begin:match.start()]
        begin = match.end()
        if token in "([{":
            value = token == "{" and is_value(levels, text[max(0, match.start() - 200):match.start()])
            level.statement += token if token != "{" else ""
            levels.append(Level("value" if value else token))
        elif token in ")]}" and len(levels) > 1:
            closed = levels.pop()
            levels[-1].statement += token if token != "}" else ""
            if closed.opening == "{" and levels[-1].opening == "{":
                levels[-1].end_statement()
        elif token == ",":
            level.conditional = False
            if COMMA_STATEMENT.match(level.statement) and not TEMPLATE_ARGUMENT.search(level.statement):
                level.commas.append(match.start())
            level.statement += token
        elif token == ";":
            level.conditional = False
            if level.opening == "{" and level.commas:
                yield level.commas, "a comma between expressions: use statements"
            level.end_statement()
        elif token == "?":
            outermost = max((i for i, outer in enumerate(levels) if outer.opening == "{"), default=0)
            if any(outer.conditional for outer in levels[outermost:]):
                yield [match.start()], "a conditional expression inside another: use if, or a function"
            level.conditional = True


# RESULT NAME(PARAMETERS) at the begin of a line, as a declaration or a definition.
FUNCTION = re.compile(r"^(?!(?:return|else|case|using|namespace|class|struct|enum|for|if|while|switch)\b)"
                      r"(?:[\w:]+(?:<[^;{}()]*>)?[&* ]+)+?(\w+)\(([^()]*(?:\([^()]*\)[^()]*)*)\)(?: noexcept)?\s*[{;]", re.M)
UNNAMED_NAMESPACE = re.compile(r"^namespace \{$.*?^\} +$", re.M | re.S)  # a comment, now spaces, follows its end


def parameter_types(parameters):
    """Returns the types without names, defaults, const and references: ("vector<float>", "int") for two parameters."""
    types, depth, begin = [], 0, 0
    for end, sign in enumerate(parameters + ","):
        depth += (sign in "<({[") - (sign in ">)}]")
        if sign == "," and depth == 0:
            types.append(parameters[begin:end].split("=")[0].strip())
            begin = end + 1
    unnamed = [re.sub(r"(?<=[&*>\w])(\s+|(?<=[&*]))\w+$", "", re.sub(r"\s+", " ", name)) for name in types if name]
    return tuple(re.sub(r"\bconst\b|\bstd::|&|\s", "", name) for name in unnamed)


def functions_defined_twice(codes):
    """Yields path, line and reason for functions of unnamed namespaces; `codes` has the text of each path."""
    places = collections.defaultdict(list)  # of name and types: path, line, whether it is in an unnamed namespace
    for path, code in codes.items():
        parts = [(0, code)] if path.suffix == ".h" else [(m.start(), m.group()) for m in UNNAMED_NAMESPACE.finditer(code)]
        for begin, part in parts:
            for match in FUNCTION.finditer(part):
                key = match.group(1), parameter_types(match.group(2))
                places[key].append((path, line_of(code, begin + match.start()), path.suffix == ".cpp"))
    for (name, _), found in sorted(places.items()):
        for path, line, unnamed in found:
            other = next((other for other, _, _ in found if other != path), None)
            if unnamed and other:
                yield path, line, f"{other.relative_to(ROOT)} has a function {name} with these parameters, too"


def main():
    failed = False
    codes = {}
    for folder in ("core", "widgets", "app", "tests"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".h", ".cpp"):
                continue
            code = without_texts(path.read_text(encoding="utf-8"))
            if folder != "tests":
                codes[path] = code
            problems = [(line_of(code, positions[0]), reason) for positions, reason in compound_expressions(code)]
            problems += [(line, f"the name {word} says nothing about its role") for line, word in declarations(code)]
            for line, reason in sorted(problems):
                print(f"{path.relative_to(ROOT)}:{line}: {reason}")
                failed = True
    for path, line, reason in functions_defined_twice(codes):
        print(f"{path.relative_to(ROOT)}:{line}: {reason}")
        failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
