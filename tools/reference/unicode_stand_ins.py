"""Prints the second table of text/tokenizer/unicode.cpp: characters later than PCRE2's tables, each with an older one like it.

Usage: ./dev reference unicode_stand_ins

PCRE2 of Debian 12 knows Unicode 14, and so does the Python that runs this; the reference's expressions know a later one. A
stand-in has the same general category, and as many bytes; it is of the same script where expressions name it, and a
letter of words or none.
"""
import sys, unicodedata
from tokenizers import Regex, pre_tokenizers

assert unicodedata.unidata_version == "14.0.0", f"Python's Unicode is {unicodedata.unidata_version}: take Python 3.11"
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cf".split()
SCRIPTS = "Latin Greek Cyrillic Arabic Devanagari Thai Hangul Hiragana Katakana Han".split()
ALL = [c for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000 and unicodedata.category(chr(c)) != "Co"]
TEXT = "".join(map(chr, ALL))


def members(expression):
    """Code points that it matches: all but what is left when they are removed."""
    left = pre_tokenizers.Split(Regex(expression), "removed").pre_tokenize_str(TEXT)
    return set(ALL) - {c for _, (begin, end) in left for c in ALL[begin:end]}


kind_of = {}
for name in [*(rf"\p{{{name}}}" for name in CATEGORIES + SCRIPTS), r"\w"]:
    for c in members(name):
        kind_of[c] = kind_of.get(c, ()) + (name,)


def keys(c):
    """What a stand-in has like c: everything, or all but the script where no older character has that."""
    yield len(chr(c).encode()), kind_of[c]
    yield len(chr(c).encode()), tuple(name for name in kind_of[c] if name[3:-1] not in SCRIPTS)


older, table = {}, []
for c in ALL:
    if c in kind_of and unicodedata.category(chr(c)) != "Cn":
        for key in keys(c):
            older.setdefault(key, c)
for c in ALL:
    if c not in kind_of or unicodedata.category(chr(c)) != "Cn":
        continue
    stand_in = next(older[key] for key in keys(c) if key in older)
    if table and table[-1][1] == c - 1 and table[-1][2] == stand_in:
        table[-1][1] = c
    else:
        table.append([c, c, stand_in])
print(", ".join(f"{{0x{first:X}, 0x{last:X}, 0x{stand_in:X}}}" for first, last, stand_in in table))
print(f"{len(table)} ranges, {sum(last - first + 1 for first, last, _ in table)} characters", file=sys.stderr)
