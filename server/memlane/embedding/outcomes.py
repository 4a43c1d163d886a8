"""How an embed call ended: the names that metrics use, and the error that carries one of them."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from memlane.domain.errors import EmbedderUnavailable
from memlane.observability.tracing import span

Outcome = Literal["ok", "timeout", "busy", "breaker_open", "refused", "error", "cancelled"]
"""``ok``; ``timeout``: over the call's time limit; ``busy``: a queue was at its bound; ``breaker_open``: not
tried, because recent tries failed; ``refused``: the provider does not take this text, however short it is
cut; ``error``: any other failure of the provider or model; ``cancelled``: the caller went away."""

OnCall = Callable[[str, float, int], None]
"""Told of every embed call: its `Outcome`, its seconds, and its number of texts. It must not raise."""


class EmbedFailed(EmbedderUnavailable):
    """The embedder does not answer; nothing was written; try again."""

    def __init__(self, message: str, *, outcome: Outcome = "error", retry_after_seconds: int = 1) -> None:
        super().__init__(message, retry_after_seconds=retry_after_seconds)
        self.outcome = outcome


class WrongModel(EmbedFailed):
    """The embedder answers, but as another model than configured, or with another dimension."""


@contextmanager
def observed(on_call: OnCall | None, texts: int, time_limit: float) -> Iterator[None]:
    """Report the call to `on_call`, and turn a time-out into `EmbedFailed`.

    Args:
        on_call: Whom to tell, if anybody.
        texts: How many texts the call has.
        time_limit: Seconds, for the message of a time-out only; the limit itself is set inside.

    Raises:
        EmbedFailed: What the call raised, or that it took longer than its limit.
    """
    started = time.perf_counter()
    outcome: Outcome = "error"
    try:
        with span("embed", memlane_texts=texts):
            yield
        outcome = "ok"
    except EmbedFailed as error:
        outcome = error.outcome
        raise
    except asyncio.CancelledError:
        outcome = "cancelled"
        raise
    except TimeoutError:
        outcome = "timeout"
        message = f"The embedder did not answer within {time_limit:g} s; try again."
        raise EmbedFailed(message, outcome=outcome) from None
    finally:
        if on_call is not None:
            on_call(outcome, time.perf_counter() - started, texts)
