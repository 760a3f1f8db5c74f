"""The kinds of tokenizers that are compared: the parts that real checkpoints' tokenizer.json have, over small vocabularies.

A kind is a vocabulary (a tokenizer.json: the demo pair's, or one under tests/text/data/tokenizers) and what replaces
its parts. Of "model" single options are replaced; "extra" adds tokens to it, "without" takes some away, and
"merges_as_pairs" writes merges as lists. tests/text/tokenizer_kinds_test.cpp puts them together the same way.
"""
import copy, json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests/text/data/tokenizers"
BASES = {"bytes": ROOT / "models/demo/target/tokenizer.json", "sentencepiece": DATA / "sentencepiece.json", "unigram": DATA / "unigram.json"}

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_level(**options):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False, **options}


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def sequence(kind, *steps):
    key = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "post_processor": "processors", "decoder": "decoders"}[kind]
    return {kind: {"type": "Sequence", key: list(steps)}}


def replace(pattern, content, kind="String"):
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


def metaspace(**options):
    return {"type": "Metaspace", "replacement": "\u2581", **options}


def template(before=(), after=()):
    """before and after: lists of (content, id)."""
    special = lambda content: {"SpecialToken": {"id": content, "type_id": 0}}
    text = lambda name, type_id: {"Sequence": {"id": name, "type_id": type_id}}
    single = [special(c) for c, _ in before] + [text("A", 0)] + [special(c) for c, _ in after]
    return {"type": "TemplateProcessing", "single": single, "pair": single + [text("B", 1)],
            "special_tokens": {c: {"id": c, "ids": [i], "tokens": [c]} for c, i in [*before, *after]}}


def added(i, content, special=True, **options):
    return {"id": i, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": not special, "special": special, **options}


END = added(0, "<|endoftext|>")
SPM = [added(0, "<unk>"), added(1, "<s>"), added(2, "</s>")]
BOS = template(before=[("<s>", 1)])
LLAMA2_DECODER = sequence("decoder", replace("\u2581", " "), {"type": "ByteFallback"}, {"type": "Fuse"},
                          {"type": "Strip", "content": " ", "start": 1, "stop": 0})
PREPEND = sequence("normalizer", {"type": "Prepend", "prepend": "\u2581"}, replace(" ", "\u2581"))
T5 = [added(0, "<pad>"), added(1, "</s>"), added(2, "<unk>")]
T5_TEMPLATE = template(after=[("</s>", 1)])

# (name, vocabulary, what is replaced, whether decoding gives any text back)
KINDS = [
    ("gpt2", "bytes", {"pre_tokenizer": byte_level(use_regex=True), "post_processor": byte_level(trim_offsets=False)}, True),
    ("roberta prefix", "bytes", {"pre_tokenizer": byte_level(use_regex=True, add_prefix_space=True)}, False),
    ("llama 3", "bytes", {
        **sequence("pre_tokenizer", split(LLAMA3), byte_level()), "model": {"ignore_merges": True, "extra": ["\u0120unmergeable", "qzx", "\u010a\u010a\u0120"]},
        "added_tokens": [END, added(4099, "<|begin_of_text|>"), added(4100, "<|eot_id|>"), added(4101, "<|eot_id|><|eot|>")],
        **sequence("post_processor", byte_level(), template(before=[("<|begin_of_text|>", 4099)]))}, True),
    ("qwen 2", "bytes", {
        "normalizer": {"type": "NFC"}, **sequence("pre_tokenizer", split(QWEN), byte_level()), "model": {"merges_as_pairs": True},
        "post_processor": byte_level(),
        "added_tokens": [END, added(4096, "<|im_start|>"), added(4097, "<|im|>"), added(4098, "<think>", False, normalized=False),
                         added(4099, "caf\u00e9au", False), added(4100, "<|im_start|>x")]}, False),
    ("smollm", "bytes", {**sequence("pre_tokenizer", {"type": "Digits", "individual_digits": True}, byte_level(use_regex=True))}, True),
    ("deepseek", "bytes", {**sequence(
        "pre_tokenizer", split(r"[\r\n]"), split(r"\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u0370-\u0373\u1e00-\u1f15\u2c60-\u2c7b]+"),
        split(r"\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"), split(r"\s+$"),
        split("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"), {"type": "Digits", "individual_digits": True}, byte_level())}, True),
    ("o200k", "bytes", {**sequence("pre_tokenizer", split(O200K), byte_level()), "model": {"ignore_merges": True}}, True),
    ("expressions", "bytes", {**sequence(
        "pre_tokenizer", split(r"\p{Han}+"), split(r"\w{7,}", "Contiguous"), split(r"\h{5,}|\d\]?|[^\]\\a]\d", "MergedWithPrevious"),
        split(r"^\s?\p{Greek}|[\p{Lu}\w-]{3}", "MergedWithNext"), split(r"(?<=[\p{Ll}])\W+|\u00e9\v", invert=True),
        {"type": "Digits", "individual_digits": False}, byte_level())}, True),
    ("splits removed", "bytes", {**sequence(
        "pre_tokenizer", split(" ", "Removed", kind="String"), split("e", "MergedWithNext", invert=True, kind="String"),
        split("..", "Contiguous", kind="String"), byte_level(add_prefix_space=True))}, False),
    ("forms", "bytes", {**sequence("normalizer", {"type": "NFKD"}, {"type": "Lowercase"}, {"type": "NFC"}, {"type": "Strip", "strip_left": True, "strip_right": False})}, False),
    ("forms 2", "bytes", {**sequence("normalizer", {"type": "NFD"}, replace("[aeiou]{2}", "<>", "Regex"), {"type": "NFKC"}, {"type": "Strip", "strip_left": False, "strip_right": True}),
        "added_tokens": [END, added(4096, "\u212bngstr\u00f6m", False), added(4097, "q\u016be\u00fc", False)]}, False),
    ("added tokens", "bytes", {"added_tokens": [
        END, added(4096, "<left>", lstrip=True), added(4097, "<right>", rstrip=True), added(1282, "word", False, single_word=True, normalized=False),
        added(4098, "<both>", lstrip=True, rstrip=True), added(4099, "<l>", False, single_word=True, lstrip=True), added(4100, " sp ", False, rstrip=True),
        added(4101, "\u0e01\u0e32", False, single_word=True)]}, False),
    ("llama 2", "sentencepiece", {**PREPEND, "pre_tokenizer": None, **LLAMA2_DECODER, "post_processor": BOS, "added_tokens": SPM}, True),
    ("llama 2, metaspace", "sentencepiece", {
        "normalizer": None, "pre_tokenizer": metaspace(prepend_scheme="first", split=False), **LLAMA2_DECODER, "post_processor": BOS,
        "added_tokens": SPM + [added(2000, "[INST]"), added(2001, "[/INST]")]}, False),
    ("phi 3", "sentencepiece", {
        **PREPEND, "pre_tokenizer": None, **LLAMA2_DECODER, "post_processor": BOS,
        "added_tokens": SPM[:2] + [added(2, "</s>", False, rstrip=True, normalized=False), added(2000, "<|user|>", rstrip=True), added(2001, "<|end|>", rstrip=True), added(2002, "tok", False)]}, False),
    ("gemma", "sentencepiece", {
        "normalizer": replace(" ", "\u2581"), "pre_tokenizer": split(" ", "MergedWithPrevious", kind="String"),
        **sequence("decoder", replace("\u2581", " "), {"type": "ByteFallback"}, {"type": "Fuse"}), "post_processor": BOS,
        "added_tokens": SPM + [added(2000, "<start_of_turn>"), added(2001, "\n\n\n", False, normalized=False), added(2002, "\u2581\u2581\u2581", False, normalized=False)]}, False),
    ("unknown fused", "sentencepiece", {**PREPEND, "pre_tokenizer": None, **LLAMA2_DECODER, "model": {"byte_fallback": False}, "added_tokens": SPM}, False),
    ("unknown single", "sentencepiece", {
        "normalizer": None, "pre_tokenizer": metaspace(add_prefix_space=True), "decoder": metaspace(add_prefix_space=True),
        "model": {"fuse_unk": False, "without": ["<0xE4>", "<0x0A>"], "ignore_merges": True}, "added_tokens": SPM}, False),
    ("metaspace first", "sentencepiece", {
        **sequence("normalizer", replace("  ", "", "String"), {"type": "Strip", "strip_left": True, "strip_right": False}),
        **sequence("pre_tokenizer", {"type": "WhitespaceSplit"}, metaspace(prepend_scheme="first", split=True)),
        "decoder": metaspace(prepend_scheme="first", split=True), "added_tokens": SPM + [added(2000, "<x>")]}, False),
    ("t5", "unigram", {"pre_tokenizer": metaspace(prepend_scheme="always"), "decoder": metaspace(prepend_scheme="always"),
        "post_processor": T5_TEMPLATE, "added_tokens": T5 + [added(1500, "<extra_id_0>"), added(1501, "<extra_id_1>")]}, False),
    ("t5, newer", "unigram", {"normalizer": ["charsmap", {"type": "Strip", "strip_left": False, "strip_right": True}, replace(" {2,}", "\u2581", "Regex")],
        "pre_tokenizer": metaspace(prepend_scheme="always", split=True), "decoder": metaspace(prepend_scheme="always", split=True),
        "post_processor": T5_TEMPLATE, "added_tokens": T5}, False),
    ("xlm-r", "unigram", {**sequence("pre_tokenizer", {"type": "WhitespaceSplit"}, metaspace(add_prefix_space=True)),
        "decoder": metaspace(add_prefix_space=True), "post_processor": template(before=[("<pad>", 0)], after=[("</s>", 1)]), "added_tokens": T5 + [added(1500, "<mask>", lstrip=True)]}, False),
    ("unigram, byte fallback", "unigram", {**PREPEND, "pre_tokenizer": None, **LLAMA2_DECODER,
        "model": {"byte_fallback": True, "extra": [f"<0x{b:02X}>" for b in range(256)]}, "added_tokens": T5}, False),
    ("unigram, whole text", "unigram", {"normalizer": {"type": "NFKC"}, "pre_tokenizer": metaspace(prepend_scheme="never", split=False),
        "decoder": metaspace(prepend_scheme="never", split=False), "added_tokens": T5}, False),
]


def changed_model(model, changes):
    model.update({k: v for k, v in changes.items() if k not in ("extra", "without", "merges_as_pairs")})
    for token in changes.get("extra", []):
        if isinstance(model["vocab"], dict):
            model["vocab"][token] = len(model["vocab"])
        else:
            model["vocab"].append([token, 0.0])
    for token in changes.get("without", []):
        del model["vocab"][token]
    if changes.get("merges_as_pairs"):
        model["merges"] = [m.split(" ") for m in model["merges"]]


def build(base, parts, charsmap=None):
    """tokenizer.json of a kind; charsmap: in place of the vocabulary's own."""
    out = json.loads(BASES[base].read_text("utf-8"))
    own = out["normalizer"]
    if charsmap and own:
        own["precompiled_charsmap"] = charsmap
    for key, value in copy.deepcopy(parts).items():
        if key == "model":
            changed_model(out["model"], value)
        elif isinstance(value, list) and key == "normalizer":
            out[key] = {"type": "Sequence", "normalizers": [own if step == "charsmap" else step for step in value]}
        else:
            out[key] = value
    return out
