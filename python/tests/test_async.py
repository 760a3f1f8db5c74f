"""Streams in an event loop: no thread for each, and cancellation that ends requests."""

import asyncio
import threading

import paceline
import pytest

ENDLESS = {"ignore_eos": True, "temperature": 0}


def test_many_streams_in_one_loop_without_threads(engine):
    wanted = [engine.complete(f"x = {i}\n", max_tokens=16, seed=i).text for i in range(12)]
    before = threading.active_count()
    most = 0

    async def ask(i):
        nonlocal most
        text = ""
        async for delta in engine.stream(f"x = {i}\n", max_tokens=16, seed=i):
            text += delta.text
            most = max(most, threading.active_count())
        return text

    async def main():
        return await asyncio.gather(*(ask(i) for i in range(12)))

    assert asyncio.run(main()) == wanted
    assert most == before
    assert asyncio.run(main()) == wanted  # another loop


def test_acomplete_answers(engine):
    async def main():
        return await asyncio.gather(*(engine.acomplete("x = 1\n", max_tokens=9, seed=3) for _ in range(3)))

    assert {answer.text for answer in asyncio.run(main())} == {
        engine.complete("x = 1\n", max_tokens=9, seed=3).text
    }


def test_the_loop_turns_while_the_engine_works(engine):
    async def main():
        turns = 0
        task = asyncio.ensure_future(engine.acomplete("x = 1\n", max_tokens=64, **ENDLESS))
        while not task.done():
            turns += 1
            await asyncio.sleep(0)
        return turns

    assert asyncio.run(main()) > 10


def test_cancelling_the_task_ends_the_request(engine):
    async def main():
        begun = asyncio.Event()
        streams = []

        async def read():
            stream = engine.stream("x = 1\n", **ENDLESS)
            streams.append(stream)
            async for _ in stream:
                begun.set()

        task = asyncio.ensure_future(read())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(engine.acomplete("x = 1\n", **ENDLESS), 0.001)
        stream = streams[0]
        stream._native.finish()
        assert stream.completion.finish_reason == "cancelled"
        assert [delta async for delta in stream] == []

    asyncio.run(main())
    engine.complete("x", max_tokens=1)
    assert engine.metrics().running <= 1


def test_leaving_the_block_ends_the_request(engine):
    async def main():
        async with engine.stream("x = 1\n", **ENDLESS) as stream:
            async for _ in stream:
                break
        stream._native.finish()
        return stream.completion.finish_reason

    assert asyncio.run(main()) == "cancelled"


def test_a_stream_is_read_with_and_without_await(engine):
    async def main():
        stream = engine.stream("x = 1\n", max_tokens=16, **ENDLESS)
        first = await stream.__anext__()
        return first.tokens + [token for delta in stream for token in delta.tokens]

    assert len(asyncio.run(main())) == 16


def test_what_fails_is_raised_in_the_loop(engine):
    async def main():
        with pytest.raises(paceline.Error) as refused:
            await engine.acomplete("x", top_p=7)
        assert refused.value.field == "top_p"

    asyncio.run(main())


def test_another_kind_of_loop(engine):
    uvloop = pytest.importorskip("uvloop")

    async def main():
        return [delta.text async for delta in engine.stream("x = 1\n", max_tokens=8, seed=1)]

    loop = uvloop.new_event_loop()
    try:
        text = "".join(loop.run_until_complete(main()))
    finally:
        loop.close()
    assert text == engine.complete("x = 1\n", max_tokens=8, seed=1).text
