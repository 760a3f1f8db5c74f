"""Writes tests/models/data/tokenizer_golden.json: ids that the `tokenizers` library gives for texts of every kind.

Usage: tokenizer_golden.py   (from the repository's root; needs tokenizers)

The tokenizers are the demo pair's, and variants of it with other parts of tokenizer.json replaced ("replace"), so that
every option that models/ reads is compared. Ids of a variant are stored as their number and a hash (FNV-1a over 32-bit words)
except for the demo's own, which are stored whole.
"""
import copy, json, random, unicodedata
from tokenizers import Tokenizer

QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+")
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def added(i, content, special, normalized):
    return {"id": i, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": normalized, "special": special}


def split(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def variants(demo):
    end = demo["added_tokens"]
    yield "demo", {}
    yield "gpt2", {"pre_tokenizer": dict(BYTE_LEVEL, use_regex=True), "post_processor": dict(BYTE_LEVEL)}
    yield "qwen", {
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split(QWEN), dict(BYTE_LEVEL)]},
        "added_tokens": end + [added(4096, "<|im_start|>", True, False), added(4097, "<|im|>", True, False),
                               added(4098, "<think>", False, False), added(4099, "caf\u00e9au", False, True),
                               added(4100, "<|im_start|>x", True, False)]}
    yield "several splits", {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        split(r"\p{N}{1,3}"), split(r"[\u4e00-\u9fff\u3040-\u309f\u30a0-\u30ff]+"), split(r"\h{5,}|\d\]?|[^\]\\a]\d"), split(r"\s*\S+|\s+"), dict(BYTE_LEVEL)]}}
    # Words that no merge makes.
    yield "ignore merges", {"model": {"ignore_merges": True, "extra": {"\u0120unmergeable": 4096, "qzx": 4097, "\u010a\u010a\u0120": 4098}}}
    yield "merges as pairs", {"model": {"merges_as_pairs": True}}


def apply(demo, replace):
    out = copy.deepcopy(demo)
    for key, value in replace.items():
        if key != "model":
            out[key] = value
            continue
        out["model"]["ignore_merges"] = value.get("ignore_merges", False)
        out["model"]["vocab"].update(value.get("extra", {}))
        if value.get("merges_as_pairs"):
            out["model"]["merges"] = [m.split(" ") for m in out["model"]["merges"]]
    return out


def fnv(ids):
    h = 0xCBF29CE484222325
    for i in ids:
        h = (h ^ i) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{h:016x}"


def scripts(rng):
    """Letters, marks and digits by script: a few words of each."""
    by_script = {}
    for c in range(0x80, 0x30000):
        kind = unicodedata.category(chr(c))
        if kind[0] in "LMN":
            by_script.setdefault(unicodedata.name(chr(c), "?").split()[0], []).append(chr(c))
    for name, letters in sorted(by_script.items()):
        if len(letters) >= 10:
            yield " ".join("".join(rng.choices(letters, k=rng.randint(1, 7))) for _ in range(rng.randint(2, 5)))


def texts():
    rng = random.Random(5)
    yield from ["", " ", "a", "\n", "\0", "\r\n", "  ", "\t", "\u180e", "a\u180eb", " \u180e ", "\u0085", "a\u0085b", "\u00a0", "\u3000x", "\u200b\u200b", "\ufeffx"]
    yield from ["I'm you're WE'LL they'VE it'\u017f don'T 'D he'd x's'", "O'Neill'd 'sup 'tis", "\u212aelvin'\u212a"]
    yield "def f(x, *args, **kwargs):\n\treturn {k: v for k, v in x.items() if v != 0x1F}  # comment\n"
    yield "class A(object):\n    \"\"\"Doc.\"\"\"\n\n    def __init__(self):\n        self._x = [1, 22, 333, 4444, 55555, 1_000_000, 3.14e-10]\n"
    yield "#include <vector>\r\nint main() {\r\n  return std::vector<int>{1,2,3}.size() == 3u ? 0 : 1;\r\n}\r\n"
    yield "SELECT * FROM t WHERE a >= 10 AND b LIKE '%x%';\n\n\n   \n\t\tEND"
    yield "<html><body class=\"x\">caf\u00e9 &amp; cr\u00e8me br\u00fbl\u00e9e</body></html>"
    yield "<|endoftext|>a<|endoftext|><|endoftext|> b <|endoftext|"
    yield "<|im_start|>user\nhi<|im|><|im_start|>x<think>why</think><|im_startx|im_start|>"
    yield "cafe\u0301au caf\u00e9au \u0041\u030a \u212b \uac00 \u1100\u1161 \u0958 q\u0307\u0323 cafe\u0301aux"
    yield "unmergeable unmergeable qzx qzxq\n\n unmergeable"
    yield "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f1e9\U0001f1ea\U0001f44d\U0001f3fd \u2764\ufe0f\u200d\U0001f525 \U0001f600\U0001f600\U0001f600"
    yield "\u0660\u0661\u0662\u0663\u0664 \u09e6\u09e7\u09e8 \u2460\u2461 \u00bd\u00bc \u2167 \U0001d7d8\U0001d7d9 12345678901234567890"
    yield "deadbeef cafe12345678xyz 0123456789abcdefg\n#FF00AA"
    yield "a" * 300
    yield "ab" * 200 + " " * 100 + "\n" * 50 + "x"
    yield "".join(chr(i) for i in range(32)) + "\x7f" + "".join(chr(i) for i in range(0x80, 0xa0))
    yield from scripts(rng)
    spaces = " \t\n\r\x0b\x0c\x1c\x85\u00a0\u1680\u180e\u2000\u2003\u200a\u200b\u2028\u2029\u202f\u205f\u2060\u3000\ufeff"
    for _ in range(40):
        yield "".join(rng.choice(spaces if rng.random() < 0.6 else "ab1.\u00e9\u4e2d'") for _ in range(rng.randint(1, 30)))
    plain = [chr(c) for c in range(0x20, 0x250)]
    wide = [chr(c) for c in range(0x250, 0x1FBFF) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
    for _ in range(40):
        yield "".join(rng.choice(plain if rng.random() < 0.8 else wide) for _ in range(rng.randint(1, 60)))
    for _ in range(25):
        yield "".join(rng.choice(wide) for _ in range(rng.randint(1, 30)))
    words = "for in self . ( ) : = == 'll 's 1 23 _x \n \n\n \r\n \t return import numpy as np HTTPServer __init__ {} [] -> 0xFF".split(" ")
    for _ in range(40):
        yield "".join(rng.choice(words) + rng.choice(["", " ", "  ", "\n    "]) for _ in range(rng.randint(1, 40)))


def main():
    demo = json.load(open("models/demo/target/tokenizer.json", encoding="utf-8"))
    every = list(texts())
    out = {"texts": every, "variants": []}
    for name, replace in variants(demo):
        tokenizer = Tokenizer.from_str(json.dumps(apply(demo, replace)))
        ids = [tokenizer.encode(t).ids for t in every]
        entry = {"name": name, "replace": replace, "hashes": [[len(i), fnv(i)] for i in ids]}
        if name == "demo":
            entry["ids"] = ids
        out["variants"].append(entry)
        print(name, len(every), "texts,", sum(map(len, ids)), "tokens")
    with open("tests/models/data/tokenizer_golden.json", "w", encoding="ascii") as f:
        json.dump(out, f, separators=(",", ":"))
        f.write("\n")


main()
