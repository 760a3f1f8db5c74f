"""The mutants as `tools/mutants/*.toml` have them, and what is wrong with how they are written.

    [[mutant]]
    name = "residual-is-target"
    mistake = "A rejected token is replaced by a draw from p."
    guards = "..."       a sentence of the table of promises in docs/testing.md, word for word
    file = "sampling/rules.cpp"
    in = "judge_rejection"            a function, by its name as its definition spells it
    replace = '''...'''               what that function says exactly once, however it is laid out
    with = '''...'''                  what it says instead; nothing, where this is empty
    caught_by = "exactness_tests"     a test program, or simulate
    case = "..."                      the test case that must fail; all of the program where absent
    options = "--machines"            for simulate alone
    also = [{file = ..., in = ..., replace = ..., with = ...}]   a second place, where it takes one
"""

import pathlib
import re
import tomllib

from cpp_anchor import AnchorError, replaced

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLACE = ("file", "in", "replace", "with")
REQUIRED = {"name", "mistake", "guards", "caught_by", *PLACE}
OPTIONAL = {"case", "options", "also"}


def load():
    """All mutants, in the order in which their files have them."""
    files = sorted((ROOT / "tools/mutants").glob("*.toml"))
    return [m for file in files for m in tomllib.loads(file.read_text())["mutant"]]


def mutated(mutant, root):
    """The texts of the files that the mutant changes, by their paths within ROOT."""
    texts = {}
    for place in [mutant, *mutant.get("also", [])]:
        file = place["file"]
        text = texts[file] if file in texts else (root / file).read_text()
        texts[file] = replaced(text, *(place[field] for field in PLACE[1:]))
    return texts


def rows(text):
    """The cells of the table of promises in docs/testing.md, row by row, without its head."""
    table = text.split("| sentence |")[1].split("\n\n")[0]
    return [line.split("|")[1:-1] for line in table.splitlines()[2:]]


def testing():
    return (ROOT / "docs/testing.md").read_text()


def promises():
    """The sentences of that table, each with the mutants that it names."""
    return {cells[0].strip(): re.findall(r"`([^`]*)`", cells[-1]) for cells in rows(testing())}


def witnesses(text):
    """(program, case) for each test case that the table names: *case*, *another* (`program`)."""
    for cells in rows(text):
        waiting = []
        for case, program in re.findall(r"\*([^*]+)\*|\(`(\w+)`\)", cells[1]):
            if case:
                waiting.append(case)
            else:
                yield from ((f"{program}_tests", each) for each in waiting)
                waiting = []
        yield from (("", each) for each in waiting)


class TestSources:
    """Names of test cases, by program."""

    def __init__(self):
        self.names, self.folders = {}, {}
        for cmake in sorted((ROOT / "tests").rglob("CMakeLists.txt")):
            text = cmake.read_text()
            programs = [f"{p}_tests" for p in re.findall(r"paceline_tests\((\w+)", text)]
            programs += re.findall(r"add_executable\((\w+)", text)
            # A family of kernels runs the tests of others besides its own.
            folder = ROOT / "tests" if "gpu" in cmake.parts[-3:-1] else cmake.parent
            self.folders.update(dict.fromkeys(programs, folder))

    def has(self, program, case=None):
        if program not in self.folders:
            return False
        return case is None or case in self.cases(self.folders[program])

    def cases(self, folder):
        if folder not in self.names:
            text = "".join(file.read_text() for file in sorted(folder.rglob("*.cpp")))
            text = re.sub(r'"\s+"', "", text)  # one name in several strings
            self.names[folder] = set(re.findall(r'TEST_CASE(?:_\w+)?\(\s*"([^"]*)"', text))
        return self.names[folder]


def complaints(mutants):
    """What is wrong with MUTANTS, a sentence each."""
    sentences, tests = promises(), TestSources()
    names = [m.get("name") for m in mutants]
    for sentence, named in sentences.items():
        for name in named:
            guarded = [m["guards"] for m in mutants if m.get("name") == name]
            if guarded != [sentence]:
                yield f"docs/testing.md: {name} is no mutant that guards: {sentence}"
    yield from unknown_witnesses(testing(), tests)
    for m in mutants:
        yield from (f"{m.get('name')}: {what}" for what in wrong_with(m, names, sentences, tests))


def unknown_witnesses(text, tests):
    for program, case in witnesses(text):
        if not program:
            yield f'docs/testing.md: no program is named for "{case}"'
        elif not tests.has(program, case):
            yield f'docs/testing.md: {program} has no test case "{case}"'


def wrong_with(m, names, sentences, tests):
    fields = set(m)
    if not REQUIRED <= fields or not fields <= REQUIRED | OPTIONAL:
        unknown = fields - REQUIRED - OPTIONAL
        yield f"missing: {sorted(REQUIRED - fields)}, unknown: {sorted(unknown)}"
        return
    if names.count(m["name"]) > 1:
        yield "another one has this name"
    if m["guards"] not in sentences:
        yield f"docs/testing.md promises no such thing: {m['guards']}"
    if not tests.has(m["caught_by"]):
        yield f"there is no test program {m['caught_by']}"
    elif not tests.has(m["caught_by"], m.get("case")):
        yield f"{m['caught_by']} has no test case \"{m['case']}\""
    try:
        mutated(m, ROOT)
    except (AnchorError, OSError) as error:
        yield f"{m['file']}: {error}"
