"""The `tokenizers` library over the vocabulary of a GGUF file: a third reader, where two read a text in two ways.

How texts are cut stands here in the words of the models' own tokenizer.json, which a GGUF file only has a name for. Left out
is the normalizer of some (NFC): GGUF files have no word for it, and neither llama.cpp nor Paceline applies it to their texts.
"""
import json
import gguf
from tokenizers import Tokenizer
from tokenizer_kinds import LLAMA2_DECODER, LLAMA3, PREPEND, QWEN, added, byte_level, replace, sequence, split

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
QWEN35 = QWEN.replace(r"?\p{L}+|", r"?[\p{L}\p{M}]+|").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")
DIGITS = {"type": "Digits", "individual_digits": True}
HAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
GPT2 = byte_level(use_regex=True)
# Those with a case that DeepSeek LLM's tokenizer.json lists.
LETTERS = ("A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376"
           "\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-"
           "\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a"
           "\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4"
           "\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc"
           "\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f"
           "\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b"
           "\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a"
           "\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2"
           "\U000118a0-\U000118df\U0001e900-\U0001e943")
CUTS = {
    ("gpt-2", "mpt"): [GPT2],
    ("smollm", "starcoder", "refact", "command-r"): [DIGITS, GPT2],
    ("llama-bpe",): [split(LLAMA3), byte_level()],
    ("qwen2",): [split(QWEN), byte_level()],
    ("qwen35",): [split(QWEN35), byte_level()],
    ("deepseek-llm",): [split("[\r\n]"), split(rf"\s?[{LETTERS}]+"), split("\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"),
                        split(r"\s+$"), split(HAN), DIGITS, byte_level()],
    ("deepseek-coder",): [split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split(HAN), DIGITS, byte_level()],
    ("falcon", "default"): [{"type": "Punctuation", "behavior": "Contiguous"}, GPT2, {"type": "Digits", "individual_digits": False},
                            split("[0-9][0-9][0-9]")],
}
WHOLE_WORDS = {"llama-bpe"}  # ignore_merges


def fields_of(path):
    """The metadata of a file's tokenizer and its architecture, without the keys' prefixes."""
    wanted = {"general.architecture": "architecture"} | {f"tokenizer.ggml.{key}": key for key in ("model", "pre", "tokens", "token_type", "scores", "merges")}
    fields = gguf.GGUFReader(path).fields
    return {name: fields[key].contents() for key, name in wanted.items() if key in fields}


def added_tokens(tokens, types, strips):
    """Tokens that are found in a text as they are spelled."""
    return [added(i, token, types[i] != USER_DEFINED, normalized=False, rstrip=strips and token not in ("<unk>", "<s>", "<|endoftext|>"))
            for i, token in enumerate(tokens) if types[i] in (UNKNOWN, CONTROL, USER_DEFINED) and token]


def pairs_of(tokens, scores):
    """SentencePiece's merges: every pair that makes a token, those of the highest scores first."""
    ids = {token: i for i, token in enumerate(tokens)}
    found = [(scores[i], token[:at], token[at:]) for i, token in enumerate(tokens) for at in range(1, len(token))
             if token[:at] in ids and token[at:] in ids]
    return [[left, right] for _, left, right in sorted(found, key=lambda merge: -merge[0])]


def description(path):
    """The tokenizer.json of a file's vocabulary, without what is put around a text; none: it is of no kind above."""
    fields = fields_of(path)
    tokens, pre = fields["tokens"], fields.get("pre", "default")
    types = fields.get("token_type") or [NORMAL] * len(tokens)
    out = {"version": "1.0", "added_tokens": added_tokens(tokens, types, fields["architecture"] == "phi3"), "normalizer": None, "post_processor": None}
    model = {"type": "BPE", "vocab": {token: i for i, token in enumerate(tokens)}, "ignore_merges": pre in WHOLE_WORDS}
    if fields["model"] == "gpt2":
        steps = next((steps for names, steps in CUTS.items() if pre in names), None)
        if not steps:
            return None
        return out | {"model": model | {"merges": fields["merges"]}, "decoder": byte_level(), **sequence("pre_tokenizer", *steps)}
    unknown = next((token for i, token in enumerate(tokens) if types[i] == UNKNOWN), None)
    model |= {"byte_fallback": True, "fuse_unk": True, "unk_token": unknown}
    if fields["model"] == "gemma4":
        return out | {"model": model | {"merges": fields["merges"]}, "normalizer": replace(" ", "\u2581"),
                      "pre_tokenizer": split(" ", "MergedWithPrevious", kind="String"), **LLAMA2_DECODER}
    return out | {"model": model | {"merges": pairs_of(tokens, fields["scores"])}, "pre_tokenizer": None, **PREPEND, **LLAMA2_DECODER}


def third_reader(path):
    """Returns the function from a text to its ids; none: how the model cuts texts is not known here."""
    whole = description(path)
    if not whole:
        return None
    tokenizer = Tokenizer.from_str(json.dumps(whole))
    return lambda text: tokenizer.encode(text).ids
