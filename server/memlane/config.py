"""The one reader of the environment. Every fault is reported at once, by name and reason, never by value.

What a value must be for those who use it (a secret that signs, a key, a license, the URL of a model) they say
themselves: `memlane.preflight` asks them, and is what a command calls.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar
from urllib.parse import urlsplit

from memlane.domain.errors import Misconfigured

DeploymentMode = Literal["self_hosted", "managed"]
Role = Literal["api", "gateway", "worker"]
DEFAULT_PORTS: Mapping[Role, int] = {"api": 4201, "gateway": 4401, "worker": 4501}
EXIT_MISCONFIGURED = 78
"""EX_CONFIG of sysexits.h: waiting will not mend it."""

MAX_LIVE_MEMORIES: int | None = 100_000
"""Most live memories of each user, and of each project, by default."""
RATE_PER_USER: int | None = 200
"""Requests a second of each key and user by default; ten seconds' worth may come at once."""
RATE_LANE_WRITES: int | None = 1_000
"""Writes a second of each lane by default; ten seconds' worth may come at once."""
LOOPBACK_HOSTS = ("127.0.0.1", "127.0.0.1:*", "localhost", "localhost:*", "[::1]", "[::1]:*")
"""What `/mcp` takes as its own name by default."""

_HOST = re.compile(r"([A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:]{2,45}\])(:[0-9]{1,5})?", re.ASCII)
_HOST_PORT = re.compile(r":[0-9]{1,5}$", re.ASCII)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fault:
    """One wrong setting."""

    name: str
    reason: str


class ConfigurationFaults(Misconfigured):
    """The configuration is not valid."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("; ".join(f"{fault.name}: {fault.reason}" for fault in faults))
        self.faults = tuple(faults)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that the environment decides, for a server process. Secrets are in no repr."""

    database_url: str = field(repr=False)
    deployment_mode: DeploymentMode
    join_secrets: str = field(repr=False)
    embeddings_url: str
    embedding_model: str
    embedding_dimensions: int
    embeddings_api_key: str | None = field(default=None, repr=False)
    earlier_embeddings_url: str | None = None
    earlier_embedding_model: str = ""
    earlier_embedding_dimensions: int = 0
    earlier_embeddings_api_key: str | None = field(default=None, repr=False)
    judge: Literal["none", "entailment", "chat"] = "none"
    judge_url: str = ""
    judge_model: str = ""
    judge_bound: float = 0.9
    judge_api_key: str | None = field(default=None, repr=False)
    reranker_url: str | None = None
    reranker_api_key: str | None = field(default=None, repr=False)
    license: str | None = field(default=None, repr=False)
    license_keys: str | None = None
    redis_url: str | None = field(default=None, repr=False)
    database_pool: int = 16
    behind_pooler: bool = False
    host: str = "0.0.0.0"  # noqa: S104 - in a container the service must be reachable; `dev` binds loopback
    port: int = 4201
    metrics_port: int | None = None
    log_level: str = "INFO"
    session_hours: int = 24
    drain_seconds: float = 0.0
    allowed_origins: frozenset[str] | None = None
    mcp_hosts: tuple[str, ...] = LOOPBACK_HOSTS
    max_live_memories: int | None = None
    traces_endpoint: str | None = None
    rate_per_user: int | None = None
    rate_lane_writes: int | None = None


class _Reader:
    """Reads variables one by one and gathers the faults."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self.faults: list[Fault] = []

    def text(self, name: str, *, required_for: str | None = None) -> str | None:
        """A variable's text; blank counts as missing."""
        value = self._environment.get(name, "").strip()
        if value:
            return value
        if required_for is not None:
            self.faults.append(Fault(name, f"is required for {required_for}"))
        return None

    def parsed(self, name: str, parse: Callable[[str], T], default: T, *, required_for: str | None = None) -> T:
        """A variable through a parser that raises ValueError with a reason."""
        value = self.text(name, required_for=required_for)
        if value is None:
            return default
        try:
            return parse(value)
        except ValueError as fault:
            self.faults.append(Fault(name, str(fault)))
            return default


def read_settings(environment: Mapping[str, str], *, command: str, role: Role) -> tuple[Settings, list[Fault]]:
    """Read all settings of a server process and check their form; a setting that has a fault is at its default.

    Args:
        environment: The process's variables.
        command: What they are for, named in the faults.
        role: Which settings are required: only `api` needs an embedder, and `gateway` needs Redis.
    """
    read = _Reader(environment)
    mode = read.parsed("MEMLANE_DEPLOYMENT_MODE", _one_of("self_hosted", "managed"), "", required_for=command)
    self_hosted = None if mode == "managed" else f"{command} unless MEMLANE_DEPLOYMENT_MODE is managed"
    embedder_for = command if role == "api" else None
    database_url = read.parsed("DATABASE_URL", _url("postgresql", "postgres"), "", required_for=command)
    embeddings_url = read.parsed("MEMORY_EMBEDDINGS_URL", _url("http", "https", "local"), "", required_for=embedder_for)
    earlier_url = read.parsed("MEMORY_EARLIER_EMBEDDINGS_URL", _optional_url("http", "https", "local"), None)
    earlier_for = None if earlier_url is None else "MEMORY_EARLIER_EMBEDDINGS_URL"
    judge = read.parsed("MEMLANE_JUDGE", _one_of("none", "entailment", "chat"), "none")
    judge_for = None if judge == "none" else f"MEMLANE_JUDGE={judge}"
    settings = Settings(
        database_url=database_url,
        deployment_mode="managed" if mode == "managed" else "self_hosted",
        join_secrets=read.text("MEMLANE_JOIN_SECRETS", required_for=command) or "",
        embeddings_url=embeddings_url,
        embedding_model=read.text("MEMORY_EMBEDDING_MODEL", required_for=embedder_for) or "",
        embedding_dimensions=read.parsed("MEMORY_EMBEDDING_DIMENSIONS", _whole(1, 4000), 0, required_for=embedder_for),
        embeddings_api_key=read.text("MEMORY_EMBEDDINGS_API_KEY"),
        earlier_embeddings_url=earlier_url,
        earlier_embedding_model=read.text("MEMORY_EARLIER_EMBEDDING_MODEL", required_for=earlier_for) or "",
        earlier_embedding_dimensions=read.parsed(
            "MEMORY_EARLIER_EMBEDDING_DIMENSIONS", _whole(1, 4000), 0, required_for=earlier_for
        ),
        earlier_embeddings_api_key=read.text("MEMORY_EARLIER_EMBEDDINGS_API_KEY"),
        judge="entailment" if judge == "entailment" else "chat" if judge == "chat" else "none",
        judge_url=read.parsed("MEMLANE_JUDGE_URL", _url("http", "https"), "", required_for=judge_for),
        judge_model=read.text("MEMLANE_JUDGE_MODEL", required_for=judge_for if judge == "chat" else None) or "",
        judge_bound=read.parsed("MEMLANE_JUDGE_BOUND", _share, 0.9),
        judge_api_key=read.text("MEMLANE_JUDGE_API_KEY"),
        reranker_url=read.parsed("MEMLANE_RERANKER_URL", _optional_url("http", "https"), None),
        reranker_api_key=read.text("MEMLANE_RERANKER_API_KEY"),
        license=read.text("MEMLANE_LICENSE", required_for=self_hosted),
        license_keys=read.text("MEMLANE_LICENSE_KEYS", required_for=self_hosted),
        redis_url=read.parsed(
            "REDIS_URL",
            _optional_url("redis", "rediss", "unix"),
            None,
            required_for=command if role == "gateway" else None,
        ),
        database_pool=read.parsed("MEMLANE_DATABASE_POOL", _whole(1, 500), 16),
        behind_pooler=read.parsed("MEMLANE_DATABASE_POOLER", _one_of("none", "transaction"), "none") == "transaction",
        host=read.text("MEMLANE_HOST") or "0.0.0.0",  # noqa: S104 - see Settings.host
        port=read.parsed("MEMLANE_PORT", _whole(1, 65535), DEFAULT_PORTS[role]),
        metrics_port=read.parsed("MEMLANE_METRICS_PORT", _whole(1, 65535), None),
        log_level=read.parsed("MEMLANE_LOG_LEVEL", _one_of("DEBUG", "INFO", "WARNING", "ERROR"), "INFO"),
        session_hours=read.parsed("MEMLANE_SESSION_HOURS", _whole(1, 24 * 30), 24),
        drain_seconds=read.parsed("MEMLANE_DRAIN_SECONDS", _whole(0, 300), 5),
        allowed_origins=read.parsed("MEMLANE_ALLOWED_ORIGINS", _origins, None),
        max_live_memories=read.parsed("MEMLANE_MAX_LIVE_MEMORIES", _limit(1, 10_000_000), MAX_LIVE_MEMORIES),
        rate_per_user=read.parsed("MEMLANE_RATE_PER_USER", _limit(1, 1_000_000), RATE_PER_USER),
        rate_lane_writes=read.parsed("MEMLANE_RATE_LANE_WRITES", _limit(1, 1_000_000), RATE_LANE_WRITES),
        mcp_hosts=read.parsed("MEMLANE_MCP_HOSTS", _hosts, LOOPBACK_HOSTS),
        traces_endpoint=read.parsed("OTEL_EXPORTER_OTLP_ENDPOINT", _optional_url("http", "https"), None),
    )
    return settings, read.faults


def parse_database_url(text: str) -> str:
    """DATABASE_URL, for the commands that need nothing else.

    Raises:
        ValueError: It is not a Postgres URL; the reason never quotes it.
    """
    return _url("postgresql", "postgres")(text)


def _one_of(*values: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in values:
            raise ValueError(f"must be one of {', '.join(values)}")
        return text

    return parse


def _whole(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit()) or not least <= int(text[:10]) <= most:
            raise ValueError(f"must be a whole number from {least} to {most}")
        return int(text)

    return parse


def _limit(least: int, most: int) -> Callable[[str], int | None]:
    """A whole number, or `none`."""

    def parse(text: str) -> int | None:
        return None if text == "none" else _whole(least, most)(text)

    return parse


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0.5 <= share <= 1:  # noqa: PLR2004 - below a half, "different" would be as likely
        raise ValueError("must be a number from 0.5 to 1")
    return share


def _url(*schemes: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if not text.isprintable():
            raise ValueError("has a character that no URL can have")
        try:
            parts = urlsplit(text)
            _ = parts.port
        except ValueError:
            raise ValueError("is not a URL") from None
        if parts.scheme not in schemes or not (parts.netloc or parts.path or parts.query or parts.scheme == "local"):
            raise ValueError(f"must be a URL that begins with {' or '.join(f'{scheme}://' for scheme in schemes)}")
        if parts.scheme in {"http", "https"} and not parts.hostname:
            raise ValueError("must name a host")
        return text

    return parse


def _optional_url(*schemes: str) -> Callable[[str], str | None]:
    return _url(*schemes)


def _origins(text: str) -> frozenset[str] | None:
    if text == "*":
        return None
    origins = frozenset(origin.strip().rstrip("/") for origin in text.split(","))
    for origin in origins:
        _url("http", "https")(origin)
    return origins


def _hosts(text: str) -> tuple[str, ...]:
    found = list(LOOPBACK_HOSTS)
    for place, name in enumerate(text.split(","), start=1):
        if _HOST.fullmatch(name.strip()) is None:
            raise ValueError(f"entry {place} must be a host name, with or without a port (separate them by commas)")
        # A name alone stands for every port of it.
        found += [name.strip()] if _HOST_PORT.search(name.strip()) else [name.strip(), f"{name.strip()}:*"]
    return tuple(found)
