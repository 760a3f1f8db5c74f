"""Prints tables of text/tokenizer/unicode.cpp, in which the reference and utf8proc differ: characters that only utf8proc
normalises, later numbers, and later capitals with their small letters.

Usage: ./dev reference unicode_ranges
"""
import ctypes
from tokenizers import normalizers, pre_tokenizers

utf8proc = ctypes.CDLL("libutf8proc.so.2")
utf8proc.utf8proc_map.restype = ctypes.c_ssize_t
free = ctypes.CDLL(None).free
STABLE, COMPAT, COMPOSE, DECOMPOSE = 2, 4, 8, 16
FORMS = {"NFC": STABLE | COMPOSE, "NFD": STABLE | DECOMPOSE, "NFKC": STABLE | COMPOSE | COMPAT, "NFKD": STABLE | DECOMPOSE | COMPAT}
SECOND_HALF = 0x11930 # of the composition U+11938: no mapping of its own tells


def own(text, form):
    data, out = text.encode(), ctypes.c_void_p()
    size = utf8proc.utf8proc_map(data, len(data), ctypes.byref(out), FORMS[form])
    result = ctypes.string_at(out, size).decode()
    free(out)
    return result


def differs(c):
    order = ["a\u0345" + c, "a" + c + "\u0334", "a\u0300" + c, "a" + c + "\u0301", "a\u0315" + c]
    return (any(own(c, form) != getattr(normalizers, form)().normalize_str(c) for form in FORMS) or
            any(own(text, "NFD") != normalizers.NFD().normalize_str(text) for text in order))


def later_number(c):
    number = utf8proc.utf8proc_category(ord(c)) in (9, 10, 11) # Nd, Nl, No
    return not number and len(pre_tokenizers.Digits().pre_tokenize_str("a" + c)) == 2


def small(c):
    """The small letter of a capital that utf8proc does not know, or None."""
    lower = normalizers.Lowercase().normalize_str(c)
    return ord(lower) if len(lower) == 1 and ord(lower) != utf8proc.utf8proc_tolower(ord(c)) else None


def show(entries):
    """Entries (code point, what it becomes or nothing) as ranges."""
    ranges = []
    for code, *to in entries:
        if ranges and ranges[-1][1] == code - 1 and (not to or to[0] - code == ranges[-1][2] - ranges[-1][0]):
            ranges[-1][1] = code
        else:
            ranges.append([code, code, *to])
    print(", ".join("{" + ", ".join(f"0x{x:X}" for x in r) + "}" for r in ranges), "\n")


CODES = [code for code in range(1, 0x110000) if not 0xD800 <= code < 0xE000]
show((code,) for code in CODES if code == SECOND_HALF or differs(chr(code)))
show((code,) for code in CODES if later_number(chr(code)))
show((code, small(chr(code))) for code in CODES if small(chr(code)) is not None)
