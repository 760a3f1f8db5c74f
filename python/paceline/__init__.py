"""Paceline: speculative decoding in which draft and target work at the same time.

    import paceline

    with paceline.Engine() as engine:  # the demo pair
        print(engine.complete("def fibonacci(n):", max_tokens=64).text)
"""

from ._drafter import Drafter
from ._engine import Engine
from ._errors import Error
from ._native import (
    Completion,
    Delta,
    DraftedSequence,
    DrafterCounts,
    DraftTask,
    Metrics,
    ModelInfo,
    PromptLogprobs,
    SpeculationStats,
    Timing,
    TokenLogprob,
    Usage,
    __version__,
)
from ._request import Request
from ._stream import Stream

__all__ = [
    "Completion",
    "Delta",
    "DraftTask",
    "DraftedSequence",
    "Drafter",
    "DrafterCounts",
    "Engine",
    "Error",
    "Metrics",
    "ModelInfo",
    "PromptLogprobs",
    "Request",
    "SpeculationStats",
    "Stream",
    "Timing",
    "TokenLogprob",
    "Usage",
    "__version__",
]
