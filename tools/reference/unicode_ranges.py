"""Prints the table of text/tokenizer/unicode.cpp: characters that utf8proc normalises and the reference's tables do not.

Usage: ./dev reference unicode_ranges
"""
import ctypes
from tokenizers import normalizers

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


ranges = []
for code in range(1, 0x110000):
    if 0xD800 <= code < 0xE000 or not (code == SECOND_HALF or differs(chr(code))):
        continue
    if ranges and ranges[-1][1] == code - 1:
        ranges[-1][1] = code
    else:
        ranges.append([code, code])
print(", ".join(f"{{0x{first:X}, 0x{last:X}}}" for first, last in ranges))
