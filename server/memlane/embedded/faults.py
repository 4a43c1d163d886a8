"""What can go wrong with the embedded Postgres.

EmbeddedPostgresFailed      EMBEDDED_POSTGRES_FAILED
├── DataFolderInUse         DATA_FOLDER_IN_USE
├── DataFolderUnusable      DATA_FOLDER_UNUSABLE
├── OtherMajorVersion       POSTGRES_VERSION_MISMATCH
└── NoIdentity              POSTGRES_REFUSES_USER

Each message says what happened, to which folder, and what to type next. None carries SQL or a memory's text.
"""

from memlane.domain.errors import MemlaneError


class EmbeddedPostgresFailed(MemlaneError):
    """The embedded Postgres did not start."""

    code = "EMBEDDED_POSTGRES_FAILED"


class DataFolderInUse(EmbeddedPostgresFailed):
    """Another process works on this data folder."""

    code = "DATA_FOLDER_IN_USE"


class DataFolderUnusable(EmbeddedPostgresFailed):
    """The data folder, or the folder for its socket, belongs to somebody else."""

    code = "DATA_FOLDER_UNUSABLE"


class OtherMajorVersion(EmbeddedPostgresFailed):
    """The data folder was made by another major version of Postgres."""

    code = "POSTGRES_VERSION_MISMATCH"


class NoIdentity(EmbeddedPostgresFailed):
    """Postgres does not run as this user, and no other identity can reach its files."""

    code = "POSTGRES_REFUSES_USER"
