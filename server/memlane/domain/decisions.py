"""What a decision answers. A decision is pure, returns one of these two, and never raises."""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Allowed:
    """Go on."""


@dataclass(frozen=True, slots=True)
class Denied:
    """Stop here.

    Attributes:
        code: The stable code of the error that the caller meets, one of `memlane.domain.errors`.
    """

    code: str


Decision: TypeAlias = Allowed | Denied
