"""The bodies of the REST contract, as Pydantic models: what is parsed, and what the OpenAPI document says.

Requests are strict: an unknown field, a wrong type or a broken limit is a fault with the field's path.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from memlane.domain.memory import CONTENT_MAX, THREAD_ID_MAX, THREAD_IDS_MAX, AbsorbedBy, Kind, Scope
from memlane.usecases.list_memories import LIST_MAX
from memlane.usecases.recall import RECALL_DEFAULT, RECALL_MAX

BATCH_MAX = 100
"""Most memories of one batch (rest.md)."""


def _storable(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("nul_character", "must not contain a NUL character")
    return text


def _not_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank_text", "must not be empty or only white space")
    return text


def _digits(text: object) -> object:
    if isinstance(text, str) and not (text.isascii() and text.isdigit()):
        raise PydanticCustomError("int_parsing", "must be a whole number")
    return text


Content = Annotated[
    str, Field(min_length=1, max_length=CONTENT_MAX), AfterValidator(_storable), AfterValidator(_not_blank)
]
ThreadId = Annotated[str, Field(min_length=1, max_length=THREAD_ID_MAX), AfterValidator(_storable)]


class Request(BaseModel):
    """A request body: no unknown fields, no coercion."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class MemoryDraft(Request):
    """A memory to be saved, or the full replacement of one."""

    content: Content = Field(description="The statement, 1 to 8192 characters, not only white space.")
    kind: Kind = Field(
        description="`topical`: a durable fact about the subject matter. `episodic`: something that happened. "
        "`operational`: a preference or working instruction."
    )
    scope: Scope = Field(default="user", description="Whose it is: this user's, or the whole project's.")
    # A list and not a tuple: in strict mode JSON's array is a list.
    sourceThreadIds: list[ThreadId] = Field(  # noqa: N815 - the wire's name
        default_factory=list,
        max_length=THREAD_IDS_MAX,
        description="The threads that it was learned from, kept in order without repeats.",
    )


class MemoryBatch(Request):
    """Several memories; each is its own write."""

    memories: list[MemoryDraft] = Field(min_length=1, max_length=BATCH_MAX)


class RecallRequest(Request):
    """What to recall."""

    query: Content = Field(description="What to look for, in plain words of any language.")
    limit: int = Field(default=RECALL_DEFAULT, ge=1, le=RECALL_MAX)
    scope: Scope | None = Field(default=None, description="Only this scope; all that the grant reads by default.")
    kind: Kind | None = Field(default=None, description="Only this kind.")
    minScore: float | None = Field(  # noqa: N815 - the wire's name
        default=None, ge=0, le=1, description="Leave out what scores less."
    )
    strict: bool = Field(
        default=False, description="Answer 503 instead of by words alone when the embedder does not answer."
    )


class Empty(Request):
    """No fields."""


class ListQuery(BaseModel):
    """The query parameters of the list."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    includeInvalidated: Literal["true"] | None = Field(  # noqa: N815 - the wire's name
        default=None, description="`true`: also the retired rows."
    )
    limit: Annotated[int, Field(ge=1, le=LIST_MAX), BeforeValidator(_digits)] = LIST_MAX
    cursor: str | None = Field(default=None, max_length=256, description="`nextCursor` of the page before.")


class MemoryBody(BaseModel):
    """A memory."""

    id: str
    kind: Kind
    scope: Scope
    content: str
    sourceThreadIds: list[str]  # noqa: N815 - the wire's name
    invalidatedAt: datetime | None = Field(description="Null while the memory is live.")  # noqa: N815
    createdAt: datetime  # noqa: N815
    updatedAt: datetime  # noqa: N815
    recalledAt: datetime | None  # noqa: N815


class SimilarBody(BaseModel):
    """A close live neighbour that was not proven to say the same."""

    id: str
    score: float = Field(ge=0, le=1)


class WrittenMemory(MemoryBody):
    """A memory and what the write did."""

    absorbed: bool = Field(description="True when a live memory already said so and took this wording.")
    absorbedBy: AbsorbedBy | None = Field(default=None, description="What proved it; only when absorbed.")  # noqa: N815
    similar: list[SimilarBody] | None = Field(default=None, max_length=3, description="Only of a stored row.")
    epoch: str
    seq: int


class SupersededMemory(WrittenMemory):
    """The new memory and the one that it replaced."""

    retiredId: str  # noqa: N815


class PositionBody(BaseModel):
    """A place in a channel's feed."""

    epoch: str
    seq: int


class PositionsBody(BaseModel):
    """The positions of the channels that the grant can read."""

    user: PositionBody | None = None
    project: PositionBody | None = None


class MemoryListBody(BaseModel):
    """A page of memories, newest first."""

    memories: list[MemoryBody]
    positions: PositionsBody
    nextCursor: str | None = None  # noqa: N815


class ScoredMemoryBody(MemoryBody):
    """A recalled memory."""

    score: float = Field(ge=0, le=1, description="Confidence; equal scores mean the same across queries.")


class RecallBody(BaseModel):
    """The best live memories, highest score first."""

    memories: list[ScoredMemoryBody]
    degraded: list[Literal["embedder"]] | None = Field(
        default=None, description="What did not answer: the recall went by words alone."
    )


class FieldFaultBody(BaseModel):
    """One bad field."""

    path: str
    message: str


class ErrorDetail(BaseModel):
    """What went wrong."""

    code: str
    message: str
    requestId: str  # noqa: N815
    details: list[FieldFaultBody] | None = None


class ErrorBody(BaseModel):
    """Every error."""

    error: ErrorDetail


class BatchBody(BaseModel):
    """One outcome for each memory, in order."""

    outcomes: list[WrittenMemory | ErrorBody]


class SubscribeBody(BaseModel):
    """Join tokens and topic codes; a pair is left out where the grant does not read that scope."""

    joinToken: str | None = None  # noqa: N815
    joinCode: str | None = None  # noqa: N815
    projectJoinToken: str | None = None  # noqa: N815
    projectJoinCode: str | None = None  # noqa: N815


class LedgerBody(BaseModel):
    """One write of a memory."""

    operation: Literal["created", "absorbed", "superseded", "retired", "restored", "purged"]
    absorbedBy: AbsorbedBy | None  # noqa: N815
    lane: str
    keyId: str | None  # noqa: N815
    run: str
    sourceType: str  # noqa: N815
    sourceId: str  # noqa: N815
    sourceTrust: str  # noqa: N815
    triggeredBy: str  # noqa: N815
    requestId: str  # noqa: N815
    writtenAt: datetime  # noqa: N815
    seq: int
    beforeSha256: str | None  # noqa: N815
    afterSha256: str | None  # noqa: N815


class ProvenanceBody(BaseModel):
    """The ledger rows of one memory, oldest first."""

    writes: list[LedgerBody]


class RuntimeEntitlementBody(BaseModel):
    """The published union: ready with an entitlement, or degraded, misconfigured or unavailable with an error."""

    status: Literal["ready", "degraded", "misconfigured", "unavailable"]
    entitlement: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class StatusBody(BaseModel):
    """A health answer."""

    status: Literal["ok", "unavailable"]
    checks: dict[str, str] | None = Field(default=None, description="A line for each dependency.")
