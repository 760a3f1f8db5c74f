"""One request's new tokens, in a loop with or without `async`."""

from __future__ import annotations

import asyncio
import itertools
import weakref
from typing import TYPE_CHECKING

from . import _native

if TYPE_CHECKING:
    from ._engine import Engine
    from ._native import Completion, Delta

_keys = itertools.count(1)


class _Dispatcher:
    """Wakes what waits for streams in one event loop: one descriptor for all of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._wakeups = _native.Wakeups()
        self._waiting: dict[int, asyncio.Future[None]] = {}

    def watch(self, stream: _native.OpenStream, key: int, at_end: bool) -> None:
        stream.watch(self._wakeups, key, at_end)

    async def wait(self, key: int) -> None:
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.add_reader(self._wakeups.fileno(), self._wake)
        future = self._waiting[key] = loop.create_future()
        try:
            await future
        finally:
            del self._waiting[key]
            if not self._waiting:
                loop.remove_reader(self._wakeups.fileno())

    def _wake(self) -> None:
        for key in self._wakeups.take():
            future = self._waiting.get(key)
            if future is not None and not future.done():
                future.set_result(None)


_dispatchers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Dispatcher] = (
    weakref.WeakKeyDictionary()
)


def _dispatcher() -> _Dispatcher:
    loop = asyncio.get_running_loop()
    if loop not in _dispatchers:
        _dispatchers[loop] = _Dispatcher(loop)
    return _dispatchers[loop]


class Stream:
    """The new tokens of a request, as they come: `for delta in stream` or `async for`.

    Closing it, letting go of it, or cancelling the task that waits for it ends the request.
    `completion` has all that came; its figures are there once the loop has ended.
    """

    def __init__(self, engine: Engine, native: _native.OpenStream) -> None:
        self._engine = engine  # It must not be closed for want of a name.
        self._native = native
        self._key = next(_keys)
        self._watched: _Dispatcher | None = None
        self._closed = False

    @property
    def completion(self) -> Completion:
        return self._native.completion

    def cancel(self) -> None:
        """Asks for the end of the request; what it still has to say comes. From any thread."""
        self._native.cancel()

    def close(self) -> None:
        """Ends the request; nothing more comes."""
        self._closed = True
        self._native.cancel()

    async def aclose(self) -> None:
        self.close()

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Delta:
        delta = None if self._closed else self._native.next()
        if delta is None:
            raise StopIteration
        return delta

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Delta:
        while not self._closed:
            delta = self._native.poll()
            if delta is not None:
                return delta
            if self._native.ended:
                break
            await self._wait(at_end=False)
        raise StopAsyncIteration

    async def _whole(self) -> Completion:
        """Waits for the end, and is woken once."""
        while not self._native.ended:
            if self._native.poll() is None and not self._native.ended:
                await self._wait(at_end=True)
        return self.completion

    async def _wait(self, at_end: bool) -> None:
        dispatcher = _dispatcher()
        if self._watched is not dispatcher:
            self._watched = dispatcher
            dispatcher.watch(self._native, self._key, at_end)
        try:
            await dispatcher.wait(self._key)
        except asyncio.CancelledError:
            self.close()
            raise

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
