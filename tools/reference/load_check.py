"""Puts the same load on `paceline serve` with guidellm and with `paceline bench serve`.

    ./dev reference load_check

Both send the same prompts at the same even rate, and measure on their own side. The server's device is a
simulated one, whose steps take their time whatever else the machine does: what differs is the
clients. Prints both figures beside each other, medians of runs in turn; the exit status says whether
all are within 5 %.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from served import PROGRAM, server

MODEL = ["-m", "scripted:vocabulary=128,context=4096", "-d", "none"]
PROFILE = {"source": "made up", "decode": [[1, 10]], "prefill": [[1, 10], [500, 210]]}
REQUESTS = 32
RATE = 3
TOKENS = 32
RUNS = 3
BAR = 0.05

# What bench serve calls it, and what it is in guidellm's report of a request.
LATENCIES = {"mean_ttft_ms": "time_to_first_token_ms", "mean_tpot_ms": "inter_token_latency_ms"}


def write_prompts(path, key, run):
    """The benchmark's own prompts, begun so that no run finds another's in the prefix cache."""
    benchmark = pathlib.Path("apps/laboratory/bench/prompts.json")
    texts = json.loads(benchmark.read_text(encoding="utf-8"))["prompts"][:REQUESTS]
    lines = [json.dumps({"prompt": "\n".join([f"{run:08}", *text]), key: TOKENS}) + "\n"
             for text in texts]
    path.write_text("".join(lines), encoding="utf-8")


def ours(address, folder, run):
    prompts = folder / "ours.jsonl"
    write_prompts(prompts, "max_tokens", run)
    out = subprocess.run(
        [PROGRAM, "bench", "serve", "--base-url", address, "--prompts", str(prompts),
         "--num-prompts", str(REQUESTS), "--request-rate", str(RATE), "--burstiness", "1e6", "--json"],
        check=True, stdout=subprocess.PIPE, text=True).stdout
    report = json.loads(out)
    assert report["completed"] == REQUESTS, report
    return {name: report[name] for name in ("output_throughput", "mean_e2el_ms", *LATENCIES)}


def theirs(address, folder, run):
    report = folder / "theirs.json"
    prompts = folder / "theirs.jsonl"
    write_prompts(prompts, "output_tokens_count", run)
    subprocess.run(
        [os.path.join(os.path.dirname(sys.executable), "guidellm"), "run", "--disable-console",
         "--backend", f"kind=openai_http,target={address},request_format=/v1/completions",
         "--profile", f"kind=constant,rate={RATE}",
         "--constraint", f"kind=max_requests,count={REQUESTS}",
         "--data", f"kind=json_file,path={prompts}",
         "--output", f"kind=json,path={report}"],
        check=True, stdout=sys.stderr)
    requests = json.loads(report.read_text())["benchmarks"][0]["requests"]["successful"]
    assert len(requests) == REQUESTS, f"{len(requests)} of {REQUESTS} requests succeeded"
    begin = min(request["request_start_time"] for request in requests)
    end = max(request["request_end_time"] for request in requests)
    tokens = sum(request["output_metrics"]["text_tokens"] for request in requests)
    figures = {name: statistics.mean(request[key] for request in requests)
               for name, key in LATENCIES.items()}
    figures["mean_e2el_ms"] = 1000 * statistics.mean(r["request_latency"] for r in requests)
    figures["output_throughput"] = tokens / (end - begin)
    return figures


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "profile.json").write_text(json.dumps(PROFILE))
        with server(*MODEL, "--device", f"sim:{folder / 'profile.json'}") as (address, _):
            runs = [(ours(address, folder, 2 * run), theirs(address, folder, 2 * run + 1))
                    for run in range(RUNS)]
    wrong = 0
    for figure in runs[0][0]:
        mine, other = (statistics.median(run[side][figure] for run in runs) for side in (0, 1))
        wrong += abs(mine / other - 1) > BAR
        print(f"{figure}: {mine:.1f}, by guidellm {other:.1f}: {mine / other:.3f}")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
