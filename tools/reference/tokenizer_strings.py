"""Texts that try tokenizers: every script of Unicode 14, what came later, emoji, marks, controls, source code, broken UTF-8."""
import functools, random, sys, sysconfig, unicodedata
from pathlib import Path
from tokenizers import Regex, pre_tokenizers

SPACES = " \t\n\r\x0b\x0c\x1c\x85\u00a0\u1680\u180e\u2000\u2003\u200a\u200b\u2028\u2029\u202f\u205f\u2060\u3000\ufeff"
EMOJI = ("\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f1e9\U0001f1ea \U0001f44d\U0001f3fd \u2764\ufe0f\u200d\U0001f525 "
         "\U0001f600 1\ufe0f\u20e3 \U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f \U0001f1e6\U0001f1e7\U0001f1e8 \U0001fae0").split(" ")
WORDS = ("for in self . ( ) : = == 'll 's 'S 'T it's don'T WE'LL 1 23 456 7890 _x \n \n\n \r\n \r \t return import numpy as np HTTPServer "
         "__init__ {} [] -> 0xFF /* */ // # $ % & @ \\ \" ` ~ ^ !! ?! ... <0x0A> <0xE2><0x82><0xAC> <unk> \u2581 \u2581\u2581 \u0120 caf\u00e9 "
         "cafe\u0301 na\u00efve \ufb01x \u212b \uff21\uff22 \u017f \u0130I\u0131i \u1e9e\u00df \u03a3\u03c3\u03c2 \u01c4\u01c5").split(" ")
UNASSIGNED = {"Cn", "Cs", "Co"}


def assigned():
    """All characters of the running Python's Unicode (3.11: 14.0), by the first word of their names: mostly scripts."""
    groups = {}
    for code in range(0x110000):
        c = chr(code)
        if unicodedata.category(c) not in UNASSIGNED:
            groups.setdefault(unicodedata.name(c, "CONTROL").split()[0].split("-")[0], []).append(c)
    return groups


def code_lines():
    """Lines of Python's own library, which is there wherever this runs."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    text = "".join((folder / f"{name}.py").read_text("utf-8") for name in ("ast", "tokenize", "textwrap", "heapq", "locale", "html/entities"))
    return text.splitlines(keepends=True)


@functools.cache
def later():
    """Characters of later Unicode that the reference's expressions know; of the thousands of Han some."""
    unknown = "".join(chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) == "Cn")
    known = pre_tokenizers.Split(Regex(r"\p{Cn}+"), "removed").pre_tokenize_str(unknown)
    return [c for piece, _ in known for c in (piece if len(piece) < 500 else piece[::200])]


class Strings:
    """Draws texts; `literals` are what the tokenizer at hand matches in the text, such as its added tokens."""

    def __init__(self, seed, literals=()):
        assert unicodedata.unidata_version == "14.0.0", f"Python's Unicode is {unicodedata.unidata_version}: take Python 3.11"
        self.rng = random.Random(seed)
        self.groups = list(assigned().values())
        self.scripts = [g for g in self.groups if len(g) >= 8]
        self.all = [c for g in self.groups for c in g]
        self.marks = [c for c in self.all if unicodedata.category(c)[0] == "M"]
        self.letters = [c for c in self.all if unicodedata.category(c)[0] == "L"]
        self.controls = [c for c in self.all if unicodedata.category(c) in ("Cc", "Cf", "Zs", "Zl", "Zp")]
        self.lines = code_lines()
        self.literals = list(literals) or [""]

    def some(self, chars, least, most):
        return "".join(self.rng.choices(chars, k=self.rng.randint(least, most)))

    def script(self):
        chars = self.rng.choice(self.scripts)
        return " ".join(self.some(chars, 1, 8) for _ in range(self.rng.randint(1, 4)))

    def mixed(self):
        return self.some(self.all, 1, 12)

    def emoji(self):
        return "".join(self.rng.choice(EMOJI) for _ in range(self.rng.randint(1, 4)))

    def marked(self):
        return "".join(self.rng.choice(self.letters) + self.some(self.marks, 0, 4) for _ in range(self.rng.randint(1, 5)))

    def later(self):
        return "".join(self.rng.choice(later()) + self.rng.choice(["", "", " ", "a", "1", "!", "\u4e2d", "\u0301"]) for _ in range(self.rng.randint(1, 5)))

    def composed(self):
        c = self.some(self.letters, 1, 5)
        return unicodedata.normalize(self.rng.choice(["NFC", "NFD", "NFKC", "NFKD"]), c)

    def control(self):
        return self.some(self.controls, 1, 6)

    def spaces(self):
        return "".join(self.rng.choice(SPACES if self.rng.random() < 0.6 else "ab1.\u00e9\u4e2d'") for _ in range(self.rng.randint(1, 15)))

    def code(self):
        start = self.rng.randrange(len(self.lines))
        return "".join(self.lines[start:start + self.rng.randint(1, 4)])[:self.rng.randint(5, 200)]

    def words(self):
        return "".join(self.rng.choice(WORDS) + self.rng.choice(["", " ", "  ", "\n    "]) for _ in range(self.rng.randint(1, 12)))

    def digits(self):
        return self.some("0123456789\u0663\u09e7\u2167\u00bd\u2460\U0001d7d8 .,", 1, 20)

    def broken(self):
        good = (self.script() + self.emoji()).encode()
        bad = bytearray(good)
        for _ in range(self.rng.randint(1, 4)):
            at = self.rng.randrange(len(bad))
            bad[at:at + self.rng.randint(0, 1)] = self.rng.randbytes(self.rng.randint(0, 2))
            bad = bad or bytearray(b"\xff")
        return bytes(bad).decode("utf-8", "replace")

    def literal(self):
        token = self.rng.choice(self.literals)
        if self.rng.random() < 0.2:
            token = token[:self.rng.randint(0, len(token))]
        if self.rng.random() < 0.1:
            token = token.swapcase()
        return self.rng.choice(["", " ", "  ", "\n", "\u3000", "x", "_", "\u0301", "."]) + token + self.rng.choice(["", " ", " \t", "\u00a0", "y", "1", "-"])

    def draw(self):
        parts = [self.script, self.mixed, self.emoji, self.marked, self.composed, self.control, self.spaces, self.code,
                 self.words, self.digits, self.broken, self.literal, self.later]
        text = "".join(self.rng.choice(parts)() for _ in range(self.rng.choice([1, 1, 1, 2, 3, 5])))
        return self.rng.choice(["", "", "", " ", "  "]) + text if self.rng.random() < 0.95 else self.some("ab \n", 0, 3)


if __name__ == "__main__":
    strings = Strings(int(sys.argv[1]) if sys.argv[1:] else 0)
    for _ in range(20):
        print(repr(strings.draw()))
