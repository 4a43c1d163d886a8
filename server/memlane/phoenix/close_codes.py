"""The close codes that a socket ends with, and whether the other side may come back.

1000 is not among them: phoenix 1.8.4 takes it as final and never reconnects. The stock client reconnects
after every other code; ``may_return`` is for clients that read the code.
"""

from enum import IntEnum
from typing import Self


class CloseCode(IntEnum):
    """A WebSocket close code (RFC 6455, section 7.4 and its IANA registry).

    Attributes:
        may_return: Whether the same client with the same token can hope for better by connecting again.
        meaning: One sentence for a log line or a table.
    """

    may_return: bool
    meaning: str

    def __new__(cls, code: int, may_return: bool, meaning: str) -> Self:
        """Make a member whose value is the number on the wire."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.may_return = may_return
        member.meaning = meaning
        return member

    GOING_AWAY = 1001, True, "Nothing came from the client for 60 s."
    PROTOCOL_ERROR = 1002, False, "A frame was not a Phoenix V2 message."
    UNSUPPORTED_DATA = 1003, False, "A binary frame came; only text frames are understood."
    MESSAGE_TOO_BIG = 1009, False, "A frame was over 64 KiB."
    INTERNAL_ERROR = 1011, True, "The server could not form its answer."
    SERVICE_RESTART = 1012, True, "The server is restarting, or this session has ended."
