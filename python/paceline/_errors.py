"""What can go wrong, as exceptions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._native import Completion

# The library names fields as its headers do: these are called otherwise here.
_NAMES = {"target": "model", "drafters": "draft", "custom_drafter": "draft"}
_FIELD = re.compile(r"\b([A-Z]\w+)::(\w+)")
_OF_CALLERS = ("Request", "Sampling", "EngineOptions", "Constraint", "FaultOptions", "NodeTls")


def _renamed(found: re.Match[str]) -> str:
    owner, name = found.groups()
    return _NAMES.get(name, name) if owner in _OF_CALLERS else f"{owner}.{name}"


class Error(Exception):
    """A request or an option that cannot be, or a failure in operation.

    code: "invalid_argument", "not_found", "corrupt", "unsupported", "out_of_memory", "overloaded",
    "cancelled", "deadline", "unavailable" or "internal".
    message: what is wrong.  hint: how to mend it; may be empty.
    field: the keyword that is wrong, if one is.
    completion: what had come of an answer that failed on its way, else None.
    """

    code: str
    message: str
    hint: str
    field: str | None
    completion: Completion | None

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        named = [match for match in _FIELD.finditer(message) if match[1] in _OF_CALLERS]
        self.code = code
        self.message = _FIELD.sub(_renamed, message)
        self.hint = _FIELD.sub(_renamed, hint)
        self.field = _renamed(named[0]) if named else None
        self.completion = None
        super().__init__(f"{self.message}: {self.hint}" if self.hint else self.message)

    def __reduce__(self) -> tuple[type[Error], tuple[str, str, str]]:
        return Error, (self.code, self.message, self.hint)
