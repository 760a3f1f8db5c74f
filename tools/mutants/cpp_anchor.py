"""Finds code in C++ by what it says: a function by its name, an expression in it by its tokens.

Layout and comments are no part of an anchor, so that code may move and be formatted again without
a word here. An AnchorError says what was looked for and not found.
"""

import re

# Comments and literals are skipped as a whole: their braces and quotes mean nothing here.
LEXER = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
      | (?P<string>R"(?P<delimiter>[^()\s]*)\(.*?\)(?P=delimiter)" | "(?:\\.|[^"\\])*"
                   | '(?:\\.|[^'\\])+')
      | (?P<word>\d(?:'?\w)*|\w+)
      | (?P<mark>[^\s\w])""",
    re.VERBOSE | re.DOTALL,
)
CLOSING = {"(": ")", "[": "]", "{": "}"}
BEFORE_BODY = {"const", "noexcept", "override", "final", "mutable", "requires", "INLINED"}


class AnchorError(Exception):
    pass


class Tokens:
    """The tokens of a text, and where each begins and ends in it."""

    def __init__(self, text):
        found = [m for m in LEXER.finditer(text) if m.lastgroup != "comment"]
        self.words = [m.group() for m in found]
        self.spans = [m.span() for m in found]

    def places_of(self, wanted, begin=0, end=None):
        end = len(self.words) if end is None else end
        return [
            i
            for i in range(begin, end - len(wanted) + 1)
            if self.words[i] == wanted[0] and self.words[i : i + len(wanted)] == wanted
        ]

    def behind_group(self, i):
        """The token behind the bracket that closes the one at i."""
        opening, closing, depth = self.words[i], CLOSING[self.words[i]], 0
        while i < len(self.words):
            depth += (self.words[i] == opening) - (self.words[i] == closing)
            i += 1
            if depth == 0:
                return i
        raise AnchorError(f"a {opening} is never closed")

    def body_behind(self, i):
        """The brace that opens the body of a function whose name ends before i, or None: a call,
        or a declaration."""
        if i >= len(self.words) or self.words[i] != "(":
            return None
        i = self.behind_group(i)
        initialisers = False
        while i < len(self.words):
            word = self.words[i]
            if word == "{":
                # A member's braces follow its name; the body's follow a bracket or a qualifier.
                is_member = initialisers and re.fullmatch(r"\w+|>", self.words[i - 1])
                if not is_member:
                    return i
                i = self.behind_group(i)
            elif word == "(" and (initialisers or self.words[i - 1] in BEFORE_BODY):
                i = self.behind_group(i)
            elif word == ":" or initialisers:
                initialisers = True
                if word in ";)}":
                    return None
                i += 1
            elif word in BEFORE_BODY or (word == "-" and self.words[i + 1] == ">"):
                i = self.behind_result(i) if word == "-" else i + 1
            else:
                return None
        return None

    def behind_result(self, i):
        """The token behind a trailing result type, whose arrow begins at i."""
        while i < len(self.words) and self.words[i] not in "{;":
            i += 1
        return i


def functions(tokens, name):
    """Ranges of tokens of all functions that are spelled NAME where they are defined, from their
    parameters to the end of their bodies."""
    wanted = Tokens(name).words
    found = []
    for i in tokens.places_of(wanted):
        begin = i + len(wanted)
        body = tokens.body_behind(begin)
        if body is not None:
            found.append((begin, tokens.behind_group(body)))
    return found


def replaced(text, function, expression, replacement):
    """TEXT with REPLACEMENT in place of EXPRESSION, which FUNCTION must have exactly once: all
    functions of that name together, where there are several."""
    tokens = Tokens(text)
    wanted = Tokens(expression).words
    if not wanted:
        raise AnchorError("there is nothing to replace")
    where = functions(tokens, function)
    if not where:
        raise AnchorError(f"it defines no function {function}")
    places = {i for begin, end in where for i in tokens.places_of(wanted, begin, end)}
    if len(places) != 1:
        raise AnchorError(f"{function} has this {len(places)} times, not once: {expression}")
    first = places.pop()
    begin, end = tokens.spans[first][0], tokens.spans[first + len(wanted) - 1][1]
    return text[:begin] + replacement.strip() + text[end:]
