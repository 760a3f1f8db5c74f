"""Lets llama.cpp read what `paceline quantize -o X.gguf` writes of folders, and compares greedy tokens.

Usage: ./dev reference llama_models [--case NAME]   (compiles llama.cpp once, 20 minutes)

The folders are the tiny reference checkpoints of every family that is written, in f32: rows that fill no blocks stay
numbers, so that both programs compute the same up to the order of sums, but for what becomes Q8_0. Tokens may differ
where llama.cpp gives both nearly the same chance.
"""
import argparse, contextlib, json, math, pathlib, subprocess, sys, tempfile, time, urllib.error, urllib.request
from safetensors.torch import save_file
from weights import weights
sys.path.insert(0, "tools")
import llama_cpp

PROGRAM = "build/release/apps/paceline"


def beta(pair, dims, theta, trained):
    """The beta at which YaRN's ramp begins or ends with a pair, or just before it."""
    return trained / (2 * math.pi * theta ** (2 * (pair - 1e-3) / dims))


CASES = {case["name"]: case for case in json.loads(pathlib.Path("tests/models/data/checkpoints.json").read_text())}
WRITTEN = ["Llama 2, TinyLlama", "Llama 3", "YaRN", "Mistral without one", "Ministral 3", "Mixtral", "Qwen 2", "Qwen 2 MoE", "Qwen 3", "Qwen 3 MoE",
           "Gemma 2", "Gemma 3", "Gemma 4", "Gemma 4 with embeddings of layers, and keys that these share", "Gemma 4 MoE",
           "Phi 3", "SmolLM 3", "OLMo 2", "OLMo 3", "OLMoE", "Granite 3", "Granite 3 MoE", "Granite 3 MoE with a shared expert", "Granite 4",
           "GLM-4.5", "dots.llm1", "gpt-oss", "LFM 2", "LFM 2 MoE", "GPT-2", "Pythia", "Qwen 3.5", "Qwen 3.5 MoE", "Qwen 3 Next",
           "Nemotron-H", "Nemotron-H MoE"]
# What llama.cpp takes for granted of a family, and these cases have otherwise. It rounds the pairs between which YaRN's ramp
# lies to whole ones, which gpt-oss does not (docs/results/gguf.md): from these betas follow whole ones. Values of a delta rule
# are as long as keys; Qwen 2 MoE's heads are as wide together as a row; OLMoE and dots.llm1 have keys for each query's head.
CHANGES = {"Gemma 2": {"query_pre_attn_scalar": 16}, "Gemma 3": {"query_pre_attn_scalar": 16}, "SmolLM 3": {"no_rope_layer_interval": 4},
           "gpt-oss": {"swiglu_limit": 7.0,
                       "rope_scaling": {"rope_type": "yarn", "factor": 8.0, "beta_fast": 8.0, "beta_slow": beta(2, 16, 150_000, 32),
                                        "truncate": False, "original_max_position_embeddings": 32}},
           "Qwen 2 MoE": {"head_dim": 12}, "OLMoE": {"num_key_value_heads": 4}, "dots.llm1": {"num_key_value_heads": 4},
           "Qwen 3.5": {"linear_value_head_dim": 16}, "Qwen 3.5 MoE": {"linear_value_head_dim": 16}, "Qwen 3 Next": {"linear_value_head_dim": 16}}
OF_DELTA = {"linear_attn.norm.weight": [16], "out_proj.weight": [48, 64], "conv1d.weight": [128, 1, 4], "in_proj_qkv.weight": [128, 48],
            "in_proj_z.weight": [64, 48], "in_proj_qkvz.weight": [192, 48]}
OF_KEYS = {"k_proj.weight": [48, 48], "v_proj.weight": [48, 48]}
SHAPES = {"Qwen 2 MoE": {"q_proj.weight": [48, 48], "q_proj.bias": [48], "k_proj.weight": [24, 48], "k_proj.bias": [24], "v_proj.weight": [24, 48],
                         "v_proj.bias": [24], "o_proj.weight": [48, 48]},
          "OLMoE": OF_KEYS | {"k_norm.weight": [48]}, "dots.llm1": OF_KEYS, "Qwen 3.5": OF_DELTA,
          "Qwen 3.5 MoE": OF_DELTA | {"conv1d.weight": [96, 1, 4], "in_proj_qkv.weight": [96, 48]}, "Qwen 3 Next": OF_DELTA}
PROMPTS = ["abc def", "The quick brown fox", "0123456789"]
TOKENS = 24
NEAR = 0.05  # Difference of log-probabilities: llama.cpp rounds rows that meet Q8_0 to 8 bits.


def tokenizer(vocabulary):
    """A byte-level BPE of so many tokens: an end, printable characters, a blank, a newline, and pairs."""
    pieces = ["<end>", *(chr(c) for c in range(0x21, 0x7F)), "\u0120", "\u010a"]
    pairs = [a + b for a in "abcdefgh" for b in "ijklmnopqrst"][:vocabulary - len(pieces)]
    return {"added_tokens": [{"id": 0, "content": "<end>", "special": True}],
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}, "decoder": {"type": "ByteLevel"},
            "model": {"type": "BPE", "vocab": {piece: i for i, piece in enumerate(pieces + pairs)}, "merges": [f"{p[0]} {p[1]}" for p in pairs]}}


def shape_of(name, tensor, shape):
    return next((own for ending, own in SHAPES.get(name, {}).items() if tensor.endswith(ending)), shape)


def write(folder, name):
    case = CASES[name]
    config = case["config"] | CHANGES.get(name, {})
    (folder / "config.json").write_text(json.dumps(config))
    tensors = [(tensor, shape_of(name, tensor, shape), *rest) for tensor, shape, *rest in case["tensors"]]
    save_file({tensor[0]: weights(*tensor).contiguous() for tensor in tensors}, folder / "model.safetensors")
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(config["vocab_size"])))
    (folder / "generation_config.json").write_text('{"eos_token_id": 0}')


def paceline(*command, **options):
    return json.loads(subprocess.run([PROGRAM, *command], capture_output=True, text=True, check=True, **options).stdout)


def own(path, prompt):
    """The prompt's ids, and those of the answer."""
    ids = paceline("tokenize", "-m", path, "--jsonl", input=json.dumps(prompt) + "\n")["tokens"]
    return ids, paceline("generate", "-m", path, "-d", "none", "--temperature", "0", "-n", str(TOKENS), "-p", prompt, "--json")["tokens"]


@contextlib.contextmanager
def llama_server(programs, path, port=18_642):
    log = path.with_suffix(".log")
    with log.open("w") as output:
        process = subprocess.Popen([programs / "llama-server", "-m", path, "--port", str(port), "-c", "128", "-np", "1"], stdout=output, stderr=output)
    try:
        for _ in range(1200):
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health")
                break
            if process.poll() is not None:
                raise RuntimeError(next((line for line in log.read_text().splitlines() if "error" in line), "ended"))
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/completion"
    finally:
        process.terminate()
        process.wait(60)


def of_llama(url, ids):
    """Tokens of the answer, and by how much each is likelier than the next best."""
    body = {"prompt": ids, "n_predict": TOKENS, "temperature": 0, "n_probs": 2, "return_tokens": True, "cache_prompt": False}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})) as response:
        answer = json.load(response)
    margins = [p["top_logprobs"][0]["logprob"] - p["top_logprobs"][1]["logprob"] for p in answer["completion_probabilities"]]
    return answer["tokens"], margins


def difference(theirs, margins, ids):
    """What differs, in words; empty: nothing, or the rest of an answer behind a near tie."""
    for i, (a, b) in enumerate(zip(theirs, ids, strict=False)):
        if a != b:
            return "" if margins[i] < NEAR else f"token {i} is {b}, llama.cpp's {a} by {margins[i]:.3f}"
    return ""


def check(programs, name):
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work) / "folder"
        folder.mkdir()
        write(folder, name)
        path = pathlib.Path(work) / "m.gguf"
        subprocess.run([PROGRAM, "quantize", "-m", folder, "-o", path, "--weights", "q8_0"], stdout=subprocess.DEVNULL, check=True)
        found, equal = [], 0
        with llama_server(programs, path) as url:
            for prompt in PROMPTS:
                ids, answer = own(path, prompt)
                theirs, margins = of_llama(url, ids)
                equal += theirs == answer
                found += filter(None, [difference(theirs, margins, answer)])
    return equal, found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case")
    options = parser.parse_args()
    programs = llama_cpp.build()
    failed = 0
    for name in WRITTEN:
        if options.case not in (None, name):
            continue
        try:
            equal, found = check(programs, name)
        except (RuntimeError, subprocess.CalledProcessError) as error:
            equal, found = 0, [str(getattr(error, "stderr", None) or error)]
        print(f"{name}: {equal} of {len(PROMPTS)} answers equal{''.join(chr(10) + '  ' + one for one in found)}", flush=True)
        failed += len(found)
    return failed > 0


sys.exit(main())
