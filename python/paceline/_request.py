"""Requests, and how keywords become the fields of the library's structs."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _native
from ._errors import Error

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._fields import RequestFields


def set_fields(struct: Any, fields: Mapping[str, Any], what: str) -> None:
    """Sets attributes of one of the library's structs; others than it has are a TypeError."""
    for name, value in fields.items():
        if name.startswith("_") or not hasattr(type(struct), name):
            known = [known for known in dir(type(struct)) if not known.startswith("_")]
            close = difflib.get_close_matches(name, known, 1)
            hint = f": did you mean {close[0]!r}?" if close else ""
            raise TypeError(f"{what} has no {name!r}{hint}")
        try:
            setattr(struct, name, value)
        except TypeError:
            if value is not None:
                raise
            message = f"{what}::{name} is None"
            raise Error("invalid_argument", message, "leave it out, or give a value") from None


def constraint_of(form: Any) -> Any:
    """Makes a Constraint of {"json_schema": {...}}, {"regex": "..."}, {"choice": [...]} and so on."""
    if not isinstance(form, Mapping):
        return form
    constraint = _native.Constraint()
    form = dict(form)
    constraint.any_whitespace = form.pop("any_whitespace", True)
    for kind, text in form.items():
        constraint.kind = kind
        if kind == "choice":
            constraint.choices = text
        elif kind != "json":
            constraint.text = text if isinstance(text, str) else json.dumps(text)
    if len(form) != 1:
        raise TypeError('a constraint has one form, such as {"regex": "[0-9]+"}')
    return constraint


_PREPARED = {
    "stop": lambda stop: [stop] if isinstance(stop, str) else stop,
    "logit_bias": lambda bias: list(bias.items()) if isinstance(bias, Mapping) else bias,
    "constraint": constraint_of,
}


class Request(_native.Request):
    """What a caller asks an engine for: `Request(prompt="...", max_tokens=8, seed=1)`.

    The fields are those of the library's Request and Sampling (include/paceline/request.hpp), and
    can be read and set as attributes. A constraint is {"json": None}, {"json_schema": {...}},
    {"regex": "..."}, {"choice": [...]}, {"grammar": "..."} or {"structural_tag": {...}}; beside
    JSON, "any_whitespace": False leaves one blank behind each comma and colon, and no other.
    """

    __slots__ = ()

    def __init__(self, copied: _native.Request | None = None, /, **fields: Unpack[RequestFields]) -> None:
        if copied is None:
            super().__init__()
        else:
            super().__init__(copied)
        prepared = {
            name: _PREPARED[name](value) if name in _PREPARED and value is not None else value
            for name, value in fields.items()
        }
        set_fields(self, prepared, "Request")

    def __repr__(self) -> str:
        neutral = _native.Request()
        names = (name for name in dir(_native.Request) if not name.startswith("_"))
        said = ((name, getattr(self, name), getattr(neutral, name)) for name in names)
        return f"Request({', '.join(f'{name}={value!r}' for name, value, old in said if value != old)})"
