"""Engines: a target and its draft, ready to answer."""

from __future__ import annotations

import atexit
import json
import os
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Union, overload

from . import _native
from ._drafter import Drafter
from ._errors import Error
from ._request import Request, constraint_of, set_fields
from ._stream import Stream

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray
    from typing_extensions import Unpack

    from ._fields import EngineFields, RequestFields
    from ._native import Completion, Metrics, ModelInfo

Message = Mapping[str, Any]
# A text, token ids, the messages of a conversation, or a whole request.
Prompt = Union[str, Sequence[int], Sequence[Message], Request, None]

_open: weakref.WeakSet[Engine] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Engines end before the interpreter does, which their threads could not outlive."""
    for engine in list(_open):
        try:
            engine.close(drain=0)
        except Error:
            pass  # The trace could not be written, and nobody is left to be told.
    _native.end_interpreter()


os.register_at_fork(after_in_child=_native.forget_threads)


def _options(model: str, draft: Any, options: Mapping[str, Any]) -> _native.EngineOptions:
    made = _native.EngineOptions()
    fields: dict[str, Any] = {"model": os.fspath(model) if isinstance(model, os.PathLike) else model}
    if not isinstance(draft, Drafter):
        fields["draft"] = [draft] if isinstance(draft, str) else [] if draft is None else draft
    fields.update(options)
    for name in ("devices", "draft_devices"):
        if isinstance(fields.get(name), str):
            fields[name] = [fields[name]]
    for name, struct in (("faults", _native.FaultOptions()), ("node_tls", _native.NodeTls())):
        if isinstance(fields.get(name), Mapping):
            set_fields(struct, fields[name], type(struct).__name__)
            fields[name] = struct
    set_fields(made, fields, "EngineOptions")
    return made


def _is_chat(prompt: Any) -> bool:
    return (
        isinstance(prompt, Sequence)
        and not isinstance(prompt, (str, bytes))
        and len(prompt) > 0
        and isinstance(prompt[0], Mapping)
    )


_LIKE_THIS = 'give messages such as {"role": "user", "content": "Hello"}'


def _conversation(messages: Sequence[Message]) -> list[tuple[str, str, list[tuple[str, str]]]]:
    made = []
    for number, message in enumerate(messages):
        if not isinstance(message, Mapping):
            raise Error("invalid_argument", f"message {number} is {message!r}", _LIKE_THIS)
        fields = [
            (name, json.dumps(value))
            for name, value in message.items()
            if name not in ("role", "content")
        ]
        role, content = message.get("role"), message.get("content", "")
        if not isinstance(role, str) or not isinstance(content, (str, type(None))):
            what = "role" if not isinstance(role, str) else "content"
            raise Error(
                "invalid_argument",
                f"{what} of message {number} is {message.get(what)!r}",
                _LIKE_THIS,
            )
        if content is None:
            fields.append(("content", "null"))
        made.append((role, content or "", fields))
    return made


class Engine:
    """A target and its draft, ready to answer requests from any thread.

    model: a folder, a .gguf file, or a name that `paceline list` shows; "demo" is built in.
    draft: what drafts for it: a model, "suffix", "ngram", "self:mxfp4", "eagle3:DIR",
    "dflash:DIR", "gemma4-assistant:DIR", several of them, a Drafter, or None. All other keywords are those of EngineOptions
    (include/paceline/engine.hpp); times are seconds.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] = "demo",
        draft: str | Sequence[str] | Drafter | None = "auto",
        **options: Unpack[EngineFields],
    ) -> None:
        drafter = draft if isinstance(draft, Drafter) else None
        self._native = _native.OpenEngine(_options(model, draft, options), drafter)  # type: ignore[arg-type]
        _open.add(self)

    def complete(self, prompt: Prompt = None, /, **fields: Unpack[RequestFields]) -> Completion:
        """Answers a prompt (a text, token ids, or the messages of a chat), or a Request.

        Waits for the whole answer; Ctrl-C ends it. Raises Error if the request is impossible, or
        fails on its way.
        """
        stream = self._submit(prompt, fields)
        stream.finish()
        return stream.completion

    async def acomplete(self, prompt: Prompt = None, /, **fields: Unpack[RequestFields]) -> Completion:
        """Does the same in an event loop; cancelling the task ends the request."""
        return await Stream(self, self._submit(prompt, fields))._whole()

    def stream(self, prompt: Prompt = None, /, **fields: Unpack[RequestFields]) -> Stream:
        """Starts a request, and gives its new tokens as they come."""
        return Stream(self, self._submit(prompt, fields))

    def score(self, prompt: Prompt, /, **fields: Unpack[RequestFields]) -> NDArray[numpy.float32]:
        """Returns the log-probability of each token of a prompt, given those before it.

        The first one has none before it: its place holds NaN. The tokens are those of `tokenize`.
        """
        fields.update(max_tokens=0, prompt_logprobs=True)
        return _native.scores(self.complete(prompt, **fields))

    def _submit(self, prompt: Prompt, fields: Mapping[str, Any]) -> _native.OpenStream:
        if isinstance(prompt, Request):
            return self._native.submit(Request(prompt, **fields))
        named = dict(fields)
        if prompt is not None and ("prompt" in named or "prompt_tokens" in named):
            raise TypeError("the prompt is given twice: once before the keywords, and by name")
        stops: list[str] = []
        if isinstance(prompt, str):
            named["prompt"] = prompt
        elif _is_chat(prompt):
            named["prompt_tokens"] = self.apply_chat_template(prompt)  # type: ignore[arg-type]
            stops = self._native.chat_stops()
        elif prompt is not None:
            named["prompt_tokens"] = prompt
        request = Request(**named)  # type: ignore[arg-type]
        if stops:
            request.stop = [*request.stop, *stops]
        return self._native.submit(request)

    def tokenize(
        self, text: str, *, add_special_tokens: bool = True, parse_special_tokens: bool = False
    ) -> list[int]:
        """add_special_tokens: adds what the checkpoint puts before a text, such as a BOS.
        parse_special_tokens: special tokens that the text spells become those tokens."""
        return self._native.tokenize(text, add_special_tokens, parse_special_tokens)

    def detokenize(self, tokens: Sequence[int]) -> str:
        return self._native.detokenize(tokens)

    def token_bytes(self, token: int, *, skip_special_tokens: bool = True) -> bytes:
        """Returns the bytes of a token inside a text, maybe a part of a character."""
        return self._native.token_bytes(token, skip_special_tokens)

    def token_name(self, token: int) -> str:
        """Returns a token as log-probabilities name it."""
        return self._native.token_name(token)

    @overload
    def apply_chat_template(
        self, messages: Sequence[Message], *, tokenize: Literal[True] = True, **options: Any
    ) -> list[int]: ...
    @overload
    def apply_chat_template(
        self, messages: Sequence[Message], *, tokenize: Literal[False], **options: Any
    ) -> str: ...
    def apply_chat_template(
        self,
        messages: Sequence[Message],
        *,
        tokenize: bool = True,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        add_special_tokens: bool = False,
        **variables: Any,
    ) -> list[int] | str:
        """Writes a conversation by the checkpoint's template, as tokens or, to look at, as text.

        variables: further names that the template may know, such as enable_thinking=False.
        """
        how = _native.ChatOptions()
        how.add_generation_prompt = add_generation_prompt
        how.continue_final_message = continue_final_message
        how.add_special_tokens = add_special_tokens
        how.variables = [(name, json.dumps(value)) for name, value in variables.items()]
        conversation = _conversation(messages)
        if tokenize:
            return self._native.chat_tokens(conversation, how)
        return self._native.render_chat(conversation, how)

    def check(self, constraint: Mapping[str, Any]) -> None:
        """Raises Error if answers cannot be held to this form."""
        self._native.check(constraint_of(constraint))

    def metrics(self) -> Metrics:
        """Returns what the engine has counted since it opened."""
        return self._native.metrics()

    @property
    def target(self) -> ModelInfo:
        return self._native.target

    @property
    def draft_model(self) -> ModelInfo | None:
        return self._native.draft_model

    @property
    def drafters(self) -> list[str]:
        """Names of what drafts, for Request.drafter."""
        return self._native.drafters

    @property
    def chat_template(self) -> str:
        return self._native.chat_template

    @property
    def closed(self) -> bool:
        return self._native.closed

    def close(self, drain: float = 5.0) -> None:
        """Refuses new requests, lets running ones finish for `drain` seconds, and cancels the rest.

        Closing again does nothing. An engine that is let go of is closed without a drain, and so is
        one that is open when the interpreter ends.
        """
        self._native.close(drain)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(drain=0.0 if kind is not None else 5.0)

    def __repr__(self) -> str:
        return "Engine(closed)" if self.closed else f"Engine(model={self.target.name!r})"
