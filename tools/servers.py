"""Servers of several engines on this machine, run one at a time by the tools that compare them."""
import contextlib
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

READY_SECONDS = 1800  # vLLM compiles first
END_SECONDS = 20


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def server(command):
    """Runs a server on a port of its own until it answers, and gives its address. {} in the command: the port."""
    port = free_port()
    words = [str(word).replace("{}", str(port)) for word in command]
    with tempfile.TemporaryFile("w+") as log, subprocess.Popen(words, stdout=log, stderr=log) as process:
        try:
            end = time.monotonic() + READY_SECONDS
            while not answers(port):
                if process.poll() is not None or time.monotonic() > end:
                    log.seek(0)
                    sys.exit(f"{words[0]} does not serve:\n{log.read()[-3000:]}")
                time.sleep(0.2)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def answers(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5) as reply:
            return reply.status == 200
    except (urllib.error.URLError, OSError):
        return False


def load(program, address, bodies, clients, temperature, *options):
    """What `paceline bench serve` reports of these requests. bodies: {"prompt": text or ids, "max_tokens": N} each."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as prompts:
        for body in bodies:
            print(json.dumps(body), file=prompts)
        prompts.flush()
        command = [program, "bench", "serve", "--base-url", address, "--max-concurrency", clients, "--prompts", prompts.name, "--temp", temperature, "--json",
                   *options]
        return json.loads(subprocess.run([str(word) for word in command], check=True, text=True, capture_output=True).stdout)


def has(feature):
    """Whether the processor has it, by the kernel's name: "avx512f"."""
    return any(feature in line.split() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags"))


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return "unknown processor"
