"""Measures what Python costs: the same streams from Python and from C++.

    ./dev python rate [STREAMS [TOKENS [ROUNDS]]]        32 128 5, on a quiet machine

It runs `rate.py PROGRAM ...`, where PROGRAM is python/bench/rate.cpp, which does the same in C++.
All take turns, with an engine for each round. Prints tokens a second of the best rounds and their
ratio, for `async for` in one loop and for a thread for each stream.
"""

import asyncio
import subprocess
import sys
import threading
import time

import paceline


def fields(tokens, i):
    return {"max_tokens": tokens, "ignore_eos": True, "seed": i}


def in_a_loop(engine, streams, tokens):
    async def read(i):
        async for _ in engine.stream(f"x = {i}\n", **fields(tokens, i)):
            pass

    async def main():
        await asyncio.gather(*(read(i) for i in range(streams)))

    asyncio.run(main())


def in_threads(engine, streams, tokens):
    def read(i):
        for _ in engine.stream(f"x = {i}\n", **fields(tokens, i)):
            pass

    threads = [threading.Thread(target=read, args=(i,)) for i in range(streams)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def rate(way, streams, tokens):
    with paceline.Engine(max_num_seqs=streams) as engine:
        way(engine, streams, tokens)  # warms up
        begin = time.perf_counter()
        way(engine, streams, tokens)
        return streams * tokens / (time.perf_counter() - begin)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program, given = sys.argv[1], [int(number) for number in sys.argv[2:]]
    streams, tokens, rounds = given + [32, 128, 5][len(given) :]
    best = {"C++": 0.0, "async": 0.0, "threads": 0.0}
    for _ in range(rounds):
        command = [program, str(streams), str(tokens)]
        said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        best["C++"] = max(best["C++"], float(said.stdout))
        best["async"] = max(best["async"], rate(in_a_loop, streams, tokens))
        best["threads"] = max(best["threads"], rate(in_threads, streams, tokens))
    for name, tokens_a_second in best.items():
        print(f"{name:8} {tokens_a_second:8.0f} tokens/s  {tokens_a_second / best['C++']:.3f}")


if __name__ == "__main__":
    main()
