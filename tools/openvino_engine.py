"""OpenVINO GenAI, run by the interpreter of tools/openvino_cpu.py's environment.

    openvino_engine.py MODEL [--draft MODEL --window N | --look-up N] serve PORT
    openvino_engine.py MODEL [--draft MODEL --window N | --look-up N] time < REQUESTS

MODEL: a folder that optimum-intel has exported.

`serve`: an OpenAI-style server, since the package has none: what `paceline bench serve` asks for, /v1/models, and streams of
/v1/completions and /v1/chat/completions. One thread takes the pipeline's steps; each request's thread writes what a step brought it.
`time`: answers requests, a JSON body a line, one behind the other, and prints a list of [seconds to the first part, seconds from it to the
last, tokens behind the first part]; HTTP would cost a single stream a twentieth.
"""
import argparse
import http.server
import itertools
import json
import queue
import sys
import threading
import time

import numpy
import openvino
import openvino_genai

CACHE_GIGABYTES = 2


class Engine:
    """The pipeline, and a queue of parts for each request that it works on: lists of tokens, and None behind the last one."""

    def __init__(self, arguments):
        scheduling = openvino_genai.SchedulerConfig()
        scheduling.cache_size = CACHE_GIGABYTES
        scheduling.max_num_seqs = arguments.max_num_seqs
        scheduling.enable_prefix_caching = arguments.keep_prefixes
        properties = {"prompt_lookup": True} if arguments.look_up else {}
        if arguments.draft:
            properties["draft_model"] = openvino_genai.draft_model(arguments.draft, "CPU")
        self.pipeline = openvino_genai.ContinuousBatchingPipeline(arguments.model, scheduling, "CPU", properties)
        self.tokenizer = self.pipeline.get_tokenizer()
        self.window = arguments.look_up or (arguments.window if arguments.draft else 0)
        self.looks_up = bool(arguments.look_up)
        self.numbers = itertools.count()
        self.added = queue.SimpleQueue()
        threading.Thread(target=self.work, daemon=True).start()

    def ids_of(self, body):
        if "messages" in body:
            text = self.tokenizer.apply_chat_template(body["messages"], add_generation_prompt=True)
            return self.tokenizer.encode(text, add_special_tokens=False).input_ids
        if isinstance(body["prompt"], str):
            return self.tokenizer.encode(body["prompt"]).input_ids
        return openvino.Tensor(numpy.array([body["prompt"]], dtype=numpy.int64))

    def configuration(self, body):
        wanted = self.pipeline.get_config()
        wanted.max_new_tokens = body.get("max_tokens", 16)
        wanted.ignore_eos = body.get("ignore_eos", False)
        wanted.do_sample = body.get("temperature", 1) > 0
        if wanted.do_sample:
            wanted.temperature = body.get("temperature", 1)
            wanted.rng_seed = body.get("seed", 0)
        if self.window:
            wanted.num_assistant_tokens = self.window
        if self.looks_up:
            wanted.max_ngram_size = 3
        return wanted

    def parts_of(self, body):
        """Yields the answer's tokens, as many together as a step brought, and then returns the prompt's length."""
        ids = self.ids_of(body)
        parts = queue.SimpleQueue()
        self.added.put((ids, self.configuration(body), parts))
        while (tokens := parts.get()) is not None:
            yield tokens
        return ids.shape[1]

    def work(self):
        running = []
        while True:
            while not running or not self.added.empty():
                ids, wanted, parts = self.added.get()
                running.append((self.pipeline.add_request(next(self.numbers), ids, wanted), parts))
            self.pipeline.step()
            for handle, parts in running:
                while handle.can_read():
                    for output in handle.read().values():
                        parts.put(output.generated_ids)
            ended = [one for one in running if one[0].get_status() != openvino_genai.GenerationStatus.RUNNING]
            for one in ended:
                running.remove(one)
                one[1].put(None)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    engine = None

    def log_message(self, *_):
        pass

    def do_GET(self):
        body = json.dumps({"object": "list", "data": [{"id": "target", "object": "model"}]}).encode()
        self.send_response(200 if self.path == "/v1/models" else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path not in ("/v1/completions", "/v1/chat/completions"):
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        count, answer = 0, self.engine.parts_of(body)
        while True:
            try:
                tokens = next(answer)
            except StopIteration as end:
                prompt = end.value
                break
            count += len(tokens)
            text = self.engine.tokenizer.decode(tokens)
            self.event({"choices": [{"index": 0, "text": text, "delta": {"content": text}, "finish_reason": None}]})
        self.event({"choices": [{"index": 0, "text": "", "delta": {}, "finish_reason": "stop"}]})
        self.event({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": count, "total_tokens": prompt + count}})
        self.wfile.write(b"data: [DONE]\n\n")

    def event(self, value):
        self.wfile.write(b"data: " + json.dumps(value).encode() + b"\n\n")


def serve(engine, port):
    Handler.engine = engine
    http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


def time_of(engine, body):
    begin, parts = time.monotonic(), []
    for tokens in engine.parts_of(body):
        parts.append((time.monotonic(), len(tokens)))
    first = parts[0][0]
    return first - begin, parts[-1][0] - first, sum(tokens for _, tokens in parts[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--draft", help="an exported draft model")
    parser.add_argument("--window", type=int, default=4, help="tokens that the draft model proposes")
    parser.add_argument("--look-up", type=int, default=0, help="tokens that a look-up in the text proposes; 0: none")
    parser.add_argument("--max-num-seqs", type=int, default=32)
    parser.add_argument("--keep-prefixes", action="store_true", help="keep keys and values for prompts that begin alike")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("serve").add_argument("port", type=int)
    commands.add_parser("time")
    arguments = parser.parse_args()
    engine = Engine(arguments)
    if arguments.command == "serve":
        serve(engine, arguments.port)
    else:
        json.dump([time_of(engine, json.loads(line)) for line in sys.stdin], sys.stdout)


if __name__ == "__main__":
    main()
