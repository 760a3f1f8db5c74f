"""A drafter written in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    from ._native import DraftedSequence, DraftTask


class Drafter:
    """Anything that can guess how texts go on: derive from it, and give it as `draft`.

    Its methods are called on one thread of the engine at a time. Whatever it proposes, answers are
    the target's. A call that raises counts as a failure, a late one is not waited for, and a
    drafter that keeps failing is left out.
    """

    def begin(self, sequence: DraftedSequence, tokens: NDArray[numpy.int32]) -> None:
        """A sequence begins, or goes on after a pause. tokens: those committed so far."""

    def end(self, sequence: int, tokens: NDArray[numpy.int32]) -> None:
        """The sequence with this id has ended, or is paused. tokens: all that were committed."""

    def propose(self, tasks: Sequence[DraftTask]) -> None:
        """Tokens are wanted for each of these sequences: `task.propose(token)` or `task.draw(...)`,
        at most `task.wanted` of them, which must depend on the tokens of `task.context` alone.
        """
        raise NotImplementedError
