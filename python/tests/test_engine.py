"""Answers, streams and texts of the demo pair."""

import gc
import threading

import numpy
import paceline
import pytest


def test_complete_answers_and_says_how_speculation_went(engine):
    answer = engine.complete(
        "def fibonacci(n):", max_tokens=24, temperature=0, speculation="sync", window=4
    )
    assert len(answer.tokens) == 24 and answer.text == engine.detokenize(answer.tokens)
    assert answer.finish_reason == "length" and answer.reproducible
    assert answer.usage.completion_tokens == 24 and answer.usage.prompt_tokens > 0
    figures = answer.speculation
    assert figures.mode == "sync" and 0 < figures.accepted <= figures.judged
    assert figures.acceptance_rate == figures.accepted / figures.judged
    assert answer.timing.total_seconds > 0


def test_a_stream_gives_what_complete_gives(engine):
    fields = {"max_tokens": 24, "seed": 5, "temperature": 0.8}
    whole = engine.complete("import os\n", **fields)
    stream = engine.stream("import os\n", **fields)
    deltas = list(stream)
    assert "".join(delta.text for delta in deltas) == whole.text == stream.completion.text
    assert [token for delta in deltas for token in delta.tokens] == whole.tokens
    assert all(len(delta.sources) == len(delta.tokens) for delta in deltas)
    assert stream.completion.seed == 5 and list(stream) == []


def test_prompts_are_texts_tokens_messages_or_requests(engine):
    fields = {"max_tokens": 8, "temperature": 0}
    tokens = engine.tokenize("def add(a, b):")
    wanted = engine.complete("def add(a, b):", **fields).tokens
    assert engine.complete(tokens, **fields).tokens == wanted
    assert engine.complete(numpy.array(tokens, dtype=numpy.int32), **fields).tokens == wanted
    request = paceline.Request(prompt="def add(a, b):", **fields)
    assert engine.complete(request).tokens == wanted
    assert engine.complete(request, max_tokens=3).tokens == wanted[:3]
    messages = [{"role": "user", "content": "def add(a, b):"}]
    chat = engine.apply_chat_template(messages)
    assert engine.complete(messages, **fields).tokens == engine.complete(chat, **fields).tokens
    assert "def add(a, b):" in engine.apply_chat_template(messages, tokenize=False)
    with pytest.raises(paceline.Error, match="role of message 0"):
        engine.complete([{"content": "x"}])
    with pytest.raises(paceline.Error, match="message 0 is 'a'"):
        engine.apply_chat_template("abc")
    with pytest.raises(TypeError, match="given twice"):
        engine.complete("x", prompt="y")
    with pytest.raises(paceline.Error) as refused:
        engine.complete("x", max_tokens=1, stop=None)
    assert refused.value.field == "stop"
    with pytest.raises(paceline.Error, match="give a list of int"):
        engine.complete(b"x")


def test_score_gives_the_log_probabilities_of_the_prompt(engine):
    text = "def add(a, b):\n    return a + b\n"
    scores = engine.score(text)
    assert scores.dtype == numpy.float32 and len(scores) == len(engine.tokenize(text))
    assert numpy.isnan(scores[0]) and (scores[1:] <= 0).all()
    answer = engine.complete(text, max_tokens=0, prompt_logprobs=True)
    assert [row.logprob for row in answer.prompt_logprobs.logprobs[1:]] == scores[1:].tolist()


def test_answers_keep_their_form_and_their_log_probabilities(engine):
    answer = engine.complete("n = ", constraint={"regex": "[0-9]{3}"}, logprobs=True, top_logprobs=2)
    assert answer.text.isdigit() and len(answer.text) == 3 and answer.finish_reason == "stop"
    assert [row.token for row in answer.logprobs] == answer.tokens
    assert len(answer.logprobs[0].top) == 2
    assert engine.complete("x", constraint={"choice": ["yes", "no"]}).text in ("yes", "no")
    engine.check({"json_schema": {"type": "object"}})
    with pytest.raises(paceline.Error):
        engine.check({"regex": "("})


def test_closing_a_stream_ends_its_request(engine):
    endless = {"ignore_eos": True, "temperature": 0}
    with engine.stream("x = 1\n", **endless) as stream:
        next(stream)
    assert list(stream) == []
    cancelled = engine.stream("x = 1\n", **endless)
    cancelled.cancel()
    assert len(list(cancelled)) <= 1 and cancelled.completion.finish_reason == "cancelled"
    dropped = engine.stream("x = 1\n", **endless)
    next(dropped)
    before = engine.metrics().finished
    del dropped
    gc.collect()
    engine.complete("x", max_tokens=64, temperature=0)
    assert engine.metrics().finished >= before + 1


def test_a_stream_keeps_its_engine():
    assert len(list(paceline.Engine(threads=1).stream("x", max_tokens=4, ignore_eos=True))) > 0


def test_a_deadline_and_what_had_come(engine):
    answer = engine.complete("x = 1\n", deadline=0, max_tokens=8)
    assert answer.finish_reason == "deadline" and answer.tokens == []


def test_one_thread_reads_a_stream(engine):
    with paceline.Engine(threads=1, draft=None) as own:
        stream = own.stream("x = 1\n", ignore_eos=True)
        begun, refused = threading.Event(), []

        def read():
            next(stream)
            begun.set()
            try:
                for _ in stream:
                    pass
            except paceline.Error as error:
                refused.append(error.code)

        reader = threading.Thread(target=read)
        reader.start()
        begun.wait()
        while reader.is_alive() and not refused:
            try:
                stream._native.finish()
            except paceline.Error as error:
                refused.append(error.code)
        stream.cancel()
        reader.join()
        assert refused == ["invalid_argument"]


def test_many_threads_share_an_engine(engine):
    wanted = [engine.complete(f"x = {i}\n", max_tokens=12, seed=i).tokens for i in range(8)]
    got = [None] * 8

    def ask(i):
        got[i] = engine.complete(f"x = {i}\n", max_tokens=12, seed=i).tokens

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == wanted


def test_use_after_close_is_an_error():
    engine = paceline.Engine(threads=1)
    stream = engine.stream("x = 1\n", ignore_eos=True)
    engine.close(drain=0)
    engine.close()
    assert engine.closed and repr(engine) == "Engine(closed)"
    for use in (
        lambda: engine.complete("x"),
        lambda: engine.tokenize("x"),
        lambda: engine.score("x"),
        lambda: engine.metrics(),
        lambda: engine.target,
    ):
        with pytest.raises(paceline.Error) as refused:
            use()
        assert refused.value.code == "unavailable"
    for _ in stream:
        pass
    assert stream.completion.finish_reason == "cancelled"


def test_leaving_the_block_closes():
    with paceline.Engine(threads=1) as engine:
        assert not engine.closed
    assert engine.closed
    with pytest.raises(ZeroDivisionError), paceline.Engine(threads=1) as engine:
        engine.stream("x", ignore_eos=True)
        raise ZeroDivisionError
    assert engine.closed


def test_functions_given_to_an_engine_are_called():
    said = []
    with paceline.Engine(threads=1, progress=lambda what, share: said.append((what, share))):
        pass
    assert said and all(isinstance(what, str) and 0 <= share <= 1 for what, share in said)


def test_the_target_and_the_drafters_are_named(engine):
    assert engine.target.name == "demo" and engine.target.vocabulary > 256
    assert engine.draft_model is not None and "model" in engine.drafters
    assert engine.token_bytes(engine.tokenize("x")[0]) == b"x"
    with paceline.Engine(draft=None, threads=1) as plain:
        assert plain.drafters == [] and plain.draft_model is None
