"""Lets llama.cpp read what `paceline quantize -o X.gguf` writes of folders, and compares log-probabilities.

Usage: ./dev reference llama_models [--case NAME]   (compiles llama.cpp once, 20 minutes)

The folders are the tiny reference checkpoints of every family that is written. llama.cpp must load the file, and make F32
of it, with which both programs compute the same up to the order of sums: the likeliest tokens of greedy answers have the
same log-probabilities. With Q8_0 they do not, for llama.cpp rounds rows that meet it to 8 bits, and routers then choose
other experts.
"""
import argparse, contextlib, json, math, pathlib, socket, subprocess, sys, tempfile, time, urllib.error, urllib.request
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
# lies to whole ones, which gpt-oss does not (docs/results/gguf.md): from these betas follow whole ones. It leaves Phi 3's windows
# out. Values of a delta rule are as long as keys; Qwen 2 MoE's heads are as wide together as a row; OLMoE and dots.llm1 have
# keys for each query's head.
CHANGES = {"Gemma 2": {"query_pre_attn_scalar": 16}, "Gemma 3": {"query_pre_attn_scalar": 16}, "SmolLM 3": {"no_rope_layer_interval": 4},
           "Phi 3": {"sliding_window": None},
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
PROMPTS = ["abc def", "The quick brown fox", "0123456789, [abcdef]: " * 3]
TOKENS = 24
LIKELIEST = 20
FAR = 0.003  # Differences of log-probabilities; most are 0.0000. llama.cpp looks a GELU up in a table of F16.
EXACT = ["-fa", "off", "-ctk", "f32", "-ctv", "f32"]  # No halves of f32 between two products.


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
    """The prompt's ids, and of each token of the answer the log-probabilities of the likeliest by their ids."""
    ids = paceline("tokenize", "-m", path, "--jsonl", input=json.dumps(prompt) + "\n")["tokens"]
    answer = paceline("generate", "-m", path, "-d", "none", "--temperature", "0", "-n", str(TOKENS), "-p", prompt, "--json", "--logprobs", str(LIKELIEST))
    return ids, [{each["token"]: each["logprob"] for each in token["top"]} for token in answer["logprobs"]]


@contextlib.contextmanager
def llama_server(programs, path):
    log = path.with_suffix(".log")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with log.open("w") as output:
        command = [programs / "llama-server", "-m", path, "--port", str(port), "-c", "128", "-np", "1", "-t", "1", *EXACT]
        process = subprocess.Popen(command, stdout=output, stderr=output)
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
    """The same of llama.cpp."""
    body = {"prompt": ids, "n_predict": TOKENS, "temperature": 0, "n_probs": LIKELIEST, "cache_prompt": False}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})) as response:
        answer = json.load(response)
    return [{each["id"]: each["logprob"] for each in token["top_logprobs"]} for token in answer["completion_probabilities"]]


def largest_difference(theirs, ours):
    """Of the tokens that both list, as far as the answers are the same."""
    largest = 0
    for a, b in zip(theirs, ours, strict=False):
        largest = max([largest, *(abs(a[token] - b[token]) for token in a.keys() & b.keys())])
        if max(a, key=a.get) != max(b, key=b.get):
            break
    return largest


def check(programs, name):
    """The largest difference."""
    with tempfile.TemporaryDirectory() as work:
        folder, written, numbers = (pathlib.Path(work) / part for part in ("folder", "written.gguf", "numbers.gguf"))
        folder.mkdir()
        write(folder, name)
        subprocess.run([PROGRAM, "quantize", "-m", folder, "-o", written, "--weights", "q8_0"], stdout=subprocess.DEVNULL, check=True)
        with llama_server(programs, written) as url:
            of_llama(url, own(written, PROMPTS[0])[0])
        subprocess.run([programs / "llama-quantize", "--allow-requantize", written, numbers, "F32", "1"], capture_output=True, check=True)
        with llama_server(programs, numbers) as url:
            asked = [own(numbers, prompt) for prompt in PROMPTS]
            return max(largest_difference(of_llama(url, ids), ours) for ids, ours in asked)


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
            largest = check(programs, name)
            print(f"{name}: {largest:.4f}", flush=True)
            failed += largest > FAR
        except (RuntimeError, urllib.error.URLError, subprocess.CalledProcessError) as error:
            print(f"{name}: {getattr(error, 'stderr', None) or error}", flush=True)
            failed += 1
    return failed > 0


sys.exit(main())
