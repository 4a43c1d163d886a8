from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from starlette.requests import Request

from memlane.auth.runtime_keys import mint_runtime_key
from memlane.domain.caller import Caller, KeyRecord, Provenance
from memlane.domain.errors import NotEntitled, Unauthenticated, ValidationFailed
from memlane.domain.grant import Access, Grant
from memlane.domain.lane import Lane, LaneMode, Trust
from memlane.rest.credentials import caller_of, key_of, provenance_of_meta

TOKEN = mint_runtime_key("shop")
RECORD = KeyRecord(
    id="k",
    short=TOKEN.short,
    secret_sha256=TOKEN.hash(),
    organization_id="o",
    organization="acme",
    plan_code=None,
    project_id="p",
    project="shop",
    lane=Lane("l", "default", Trust.INTERNAL, LaneMode.READ_WRITE),
    grant=Grant(Access.READ_WRITE, Access.READ),
    expires_at=datetime.now(UTC) + timedelta(days=1),
    revoked_at=None,
)


class RecordingGate:
    """Stands where the gate does: knows one key, and notes what it is asked."""

    def __init__(self, *, entitled: bool = True) -> None:
        self.asked: list[str] = []
        self._entitled = entitled

    async def require_rate(self, _caller: Caller, *, writes: int) -> None:
        self.asked.append(f"rate of {writes}")

    async def authenticate(self, short: str, secret_sha256: bytes, project: str) -> KeyRecord:
        self.asked.append("key")
        if (short, secret_sha256, project) != (TOKEN.short, TOKEN.hash(), "shop"):
            raise Unauthenticated
        return RECORD

    async def require_memory(self, _key: KeyRecord) -> None:
        self.asked.append("entitlement")
        if not self._entitled:
            raise NotEntitled


def request(*headers: tuple[str, str | bytes], key: str = TOKEN.reveal()) -> Request:
    sent = [("authorization", f"Bearer {key}"), *headers]
    raw = [(name.lower().encode(), value if isinstance(value, bytes) else value.encode()) for name, value in sent]
    made = Request({"type": "http", "method": "GET", "path": "/", "headers": raw})
    made.state.request_id = "r1"
    made.state.key_id = None
    return made


async def called(*headers: tuple[str, str | bytes]) -> Any:
    return await caller_of(request(("X-Cpki-User-Id", "ada"), *headers), RecordingGate())  # type: ignore[arg-type]


async def faults(*headers: tuple[str, str | bytes]) -> list[str]:
    with pytest.raises(ValidationFailed) as caught:
        await caller_of(request(*headers), RecordingGate())  # type: ignore[arg-type]
    return [fault.path for fault in caught.value.details]


async def test_a_key_is_noted_for_the_log_by_its_public_part() -> None:
    asked = request()
    assert await key_of(asked, RecordingGate()) is RECORD  # type: ignore[arg-type]
    assert asked.state.key_id == TOKEN.short


@pytest.mark.parametrize(
    "key",
    ["", "x", f"{TOKEN.reveal()} {TOKEN.reveal()}", TOKEN.reveal().upper()],
    ids=["empty", "short", "two", "capitals"],
)
async def test_a_malformed_key_asks_nobody(key: str) -> None:
    gate = RecordingGate()
    with pytest.raises(Unauthenticated):
        await key_of(request(key=key), gate)  # type: ignore[arg-type]
    assert gate.asked == []


async def test_two_keys_ask_nobody() -> None:
    gate = RecordingGate()
    with pytest.raises(Unauthenticated):
        await key_of(request(("authorization", f"Bearer {TOKEN.reveal()}")), gate)  # type: ignore[arg-type]
    assert gate.asked == []


async def test_the_entitlement_is_asked_before_the_user_id_is_read() -> None:
    gate = RecordingGate(entitled=False)
    with pytest.raises(NotEntitled):
        await caller_of(request(("X-Cpki-Memory-Grant", "{")), gate)  # type: ignore[arg-type]
    assert gate.asked == ["key", "entitlement"]


@pytest.mark.parametrize(
    ("sent", "user"),
    [
        (b"ada", "ada"),
        ("🦊".encode(), "🦊"),
        (b"caf\xe9", "café"),
        (b"\xff\xfe", "ÿþ"),
        (b"a%20b", "a%20b"),
        ("\u2003ada\u3000".encode(), "ada"),
        (b"a b", "a b"),
        (b"x" * 256, "x" * 256),
        ("🦊".encode() * 256, "🦊" * 256),
    ],
)
async def test_a_user_id_is_utf8_or_else_latin1(sent: bytes, user: str) -> None:
    caller = await caller_of(request(("X-Cpki-User-Id", sent)), RecordingGate())  # type: ignore[arg-type]
    assert caller.user_id == user


@pytest.mark.parametrize("sent", [b"", b" ", b"\xc2\xa0", b"x" * 257, b"a\x00b", "🦊".encode() * 257])
async def test_any_other_user_id_is_a_fault_of_its_header(sent: bytes) -> None:
    assert await faults(("X-Cpki-User-Id", sent)) == ["X-Cpki-User-Id"]


async def test_a_missing_user_id_is_a_fault_of_its_header() -> None:
    assert await faults() == ["X-Cpki-User-Id"]


async def test_without_a_grant_the_caller_has_the_keys() -> None:
    assert (await called()).grant == RECORD.grant


@pytest.mark.parametrize(
    ("sent", "grant"),
    [
        ('{"user":"read","project":"read-write"}', Grant(Access.READ, Access.READ)),
        ('{"project":"read"}', Grant(Access.NONE, Access.READ)),
        ("{}", Grant(Access.NONE, Access.NONE)),
    ],
)
async def test_a_grant_only_narrows_the_keys(sent: str, grant: Grant) -> None:
    assert (await called(("X-Cpki-Memory-Grant", sent))).grant == grant


async def test_what_is_not_sent_of_the_origin_is_unknown() -> None:
    assert (await called()).provenance == Provenance("unknown", "unknown", "unknown", "unknown")


async def test_blank_origins_are_unknown_too() -> None:
    blank = [(name, b" ") for name in ("X-Memlane-Run", "X-Memlane-Source", "X-Memlane-Triggered-By")]
    assert (await called(*blank)).provenance == Provenance()


async def test_the_origin_is_kept_as_sent() -> None:
    sent = (
        ("X-Memlane-Run", "run 7"),
        ("X-Memlane-Source", "thread:a:b"),
        ("X-Memlane-Triggered-By", "🦊"),
    )
    assert (await called(*sent)).provenance == Provenance("run 7", "thread", "a:b", "🦊")


async def test_each_text_of_the_origin_keeps_the_name_that_it_was_sent_in() -> None:
    assert (await called()).provenance.sent == ()
    assert (await called(("X-Memlane-Run", " "))).provenance.sent == ()
    headers = (await called(("X-Memlane-Run", " run 7 "), ("X-Memlane-Source", "thread:t1"))).provenance
    assert headers.sent == (("X-Memlane-Run", " run 7 "), ("X-Memlane-Source", "thread:t1"))
    mixed = provenance_of_meta({"memlane/run": "run 8", "memlane/triggeredBy": "cron"}, headers)
    assert mixed == Provenance("run 8", "thread", "t1", "cron")
    assert mixed.sent == (
        ("X-Memlane-Source", "thread:t1"),
        ("memlane/run", "run 8"),
        ("memlane/triggeredBy", "cron"),
    )


async def test_the_longest_origin_is_taken() -> None:
    source = f"{'t' * 64}:{'i' * 256}"
    assert (await called(("X-Memlane-Source", source))).provenance.source_id == "i" * 256


@pytest.mark.parametrize("name", ["X-Memlane-Run", "X-Memlane-Triggered-By"])
async def test_an_origin_of_257_characters_is_a_fault_of_its_header(name: str) -> None:
    assert await faults(("X-Cpki-User-Id", "ada"), (name, "x" * 257)) == [name]
