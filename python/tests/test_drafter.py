"""Drafters written in Python change how fast answers come, and nothing else."""

import threading

import numpy
import paceline

PROMPT = "a = [1, 2, 3]\nb = [1, 2, 3]\nc = [1, 2, 3]\nd = [1, 2,"
FIELDS = {"max_tokens": 32, "temperature": 0, "speculation": "sync", "ignore_eos": True}


def plain(**fields):
    with paceline.Engine(draft=None, threads=1) as engine:
        return engine.complete(PROMPT, **{**FIELDS, "speculation": "off", **fields}).tokens


def judged(engine, **fields):
    """An answer for which drafts came in time, as they need not on a machine that is busy."""
    for _ in range(50):
        answer = engine.complete(PROMPT, **FIELDS, **fields)
        if answer.speculation.judged:
            break
    return answer


class Oracle(paceline.Drafter):
    """Knows the answer, and notes what it is asked."""

    def __init__(self, answer):
        self.answer = list(answer)
        self.threads, self.sequences, self.batches, self.kept = set(), [], [], []
        self.begun, self.ended, self.over = {}, {}, threading.Event()

    def begin(self, sequence, tokens):
        self.begun[sequence.id] = len(tokens)
        self.sequences.append((sequence.scope, sequence.sampling.temperature))

    def end(self, sequence, tokens):
        self.ended[sequence] = len(tokens)
        self.over.set()

    def propose(self, tasks):
        self.threads.add(threading.get_ident())
        self.batches.append(len(tasks))
        for task in tasks:
            self.kept.append(task)
            assert task.context.dtype == numpy.int32 and 0 < task.committed <= len(task.context)
            at = len(task.context) - self.begun[task.sequence]
            for token in self.answer[at : at + task.wanted]:
                self.give(task, token)

    def give(self, task, token):
        task.propose(token)


def test_a_drafter_that_knows_the_answer_has_it_accepted():
    oracle = Oracle(plain())
    with paceline.Engine(draft=oracle, threads=1) as engine:
        answer = judged(engine, draft_scope="mine")
        assert engine.drafters == ["drafter"]
        assert oracle.over.wait(60)
    assert answer.tokens == oracle.answer
    assert answer.speculation.accepted == answer.speculation.judged > 0
    assert set(oracle.sequences) == {("mine", 0.0)} and oracle.ended
    assert len(oracle.threads) == 1 and threading.get_ident() not in oracle.threads
    try:
        oracle.kept[0].propose(1)
        raise AssertionError("a task outlived its call")
    except paceline.Error as error:
        assert error.code == "invalid_argument"


def test_tasks_come_in_batches():
    oracle = Oracle(plain())
    with paceline.Engine(draft=oracle, threads=1) as engine:
        for _ in range(50):
            streams = [engine.stream(PROMPT, **FIELDS) for _ in range(4)]
            for stream in streams:
                assert [token for delta in stream for token in delta.tokens] == oracle.answer
            if max(oracle.batches, default=0) > 1:
                break
    assert max(oracle.batches) > 1


def test_weights_and_rows_are_drawn_from():
    class Weights(Oracle):
        def give(self, task, token):
            assert task.draw([(token, 3.0), (token + 1, 1.0)]) == token  # greedy takes the heaviest

    class Rows(Oracle):
        size = 0

        def give(self, task, token):
            row = numpy.full(self.size, -20.0, dtype=numpy.float32)
            row[token] = 0
            assert task.draw(row) == token

    answer = plain()
    for kind in (Weights, Rows):
        drafter = kind(answer)
        with paceline.Engine(draft=drafter, threads=1) as engine:
            drafter.size = engine.target.vocabulary
            done = judged(engine)
            assert done.tokens == answer
            assert done.speculation.accepted == done.speculation.judged > 0
            assert done.speculation.drafter_failures == 0


def test_a_drafter_that_raises_is_left_out_and_told_of():
    class Broken(paceline.Drafter):
        def propose(self, tasks):
            raise ValueError("no idea\nat all")

    said = []
    with paceline.Engine(draft=Broken(), threads=1, log=lambda level, text: said.append(text)) as engine:
        answer = engine.complete(PROMPT, **{**FIELDS, "max_tokens": 64})
        assert answer.tokens[:32] == plain()
        assert answer.speculation.drafter_failures > 0 and engine.metrics().draft_disabled
    assert any("ValueError: no idea at all" in text for text in said)


def test_impossible_proposals_are_failures():
    class Wild(paceline.Drafter):
        def propose(self, tasks):
            tasks[0].propose(1 << 30)

    with paceline.Engine(draft=Wild(), threads=1, log=lambda level, text: None) as engine:
        assert engine.complete(PROMPT, **FIELDS).tokens == plain()
        assert engine.metrics().drafter_failures > 0


def test_nobody_waits_for_a_drafter_that_is_slow():
    go = threading.Event()

    class Slow(paceline.Drafter):
        def propose(self, tasks):
            go.wait()

    with paceline.Engine(draft=Slow(), threads=1) as engine:
        answer = engine.complete(PROMPT, **FIELDS)
        go.set()
        assert answer.tokens == plain() and engine.metrics().draft_late > 0
