"""All that is wrong with the settings, at once: their form, and what those who use them say of their values.

Nothing is reached, and nothing is built: what only the database, the embedder or the machine can tell comes later.
`memlane api` and `memlane doctor` both call `load_settings`, so that neither takes what the other refuses.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from memlane.auth.join_tokens import parse_join_secrets
from memlane.auth.licenses import LicenseFault, LicenseRejected, parse_trusted_keys, read_license
from memlane.config import ConfigurationFaults, Fault, Role, Settings, read_settings
from memlane.domain.errors import Misconfigured
from memlane.embedding.configured import check_dimensions, check_embeddings_url
from memlane.embedding.endpoints import check_api_key, read_endpoint
from memlane.realtime.redis_fanout import check_redis_url
from memlane.storage.pool import check_connection_string

Check = Callable[[], object]
"""Raises `Misconfigured` with a phrase that follows the setting's name."""


def load_settings(environment: Mapping[str, str], *, command: str = "memlane api", role: Role = "api") -> Settings:
    """Read and check all settings of a server process.

    Args:
        environment: The process's variables.
        command: What they are for, named in the faults.
        role: Which settings are required: only `api` needs an embedder, and `gateway` needs Redis.

    Raises:
        ConfigurationFaults: With every fault, not only the first.
    """
    settings, faults = read_settings(environment, command=command, role=role)
    for name, check in _checks(settings):
        # One reason for a setting is enough, and a value without its form tells its user nothing.
        if name not in {fault.name for fault in faults}:
            faults += _fault_of(name, check)
    if faults:
        raise ConfigurationFaults(faults)
    return settings


def _checks(settings: Settings) -> Iterator[tuple[str, Check]]:
    """What is asked of whom, by setting; one that is not set is not asked for."""
    single: tuple[tuple[str, str | None, Callable[[str], object]], ...] = (
        ("DATABASE_URL", settings.database_url, check_connection_string),
        ("REDIS_URL", settings.redis_url, check_redis_url),
        ("MEMLANE_JOIN_SECRETS", settings.join_secrets, parse_join_secrets),
        ("MEMLANE_LICENSE_KEYS", settings.license_keys, parse_trusted_keys),
        ("MEMORY_EMBEDDINGS_URL", settings.embeddings_url, check_embeddings_url),
        ("MEMORY_EMBEDDINGS_API_KEY", settings.embeddings_api_key, check_api_key),
        ("MEMORY_EARLIER_EMBEDDINGS_URL", settings.earlier_embeddings_url, check_embeddings_url),
        ("MEMORY_EARLIER_EMBEDDINGS_API_KEY", settings.earlier_embeddings_api_key, check_api_key),
        ("MEMLANE_JUDGE_URL", settings.judge_url, read_endpoint),
        ("MEMLANE_JUDGE_API_KEY", settings.judge_api_key, check_api_key),
        ("MEMLANE_RERANKER_URL", settings.reranker_url, read_endpoint),
        ("MEMLANE_RERANKER_API_KEY", settings.reranker_api_key, check_api_key),
    )
    yield from ((name, partial(check, value)) for name, value, check in single if value)
    lengths = (
        ("MEMORY_EMBEDDING_DIMENSIONS", settings.embeddings_url, settings.embedding_dimensions),
        ("MEMORY_EARLIER_EMBEDDING_DIMENSIONS", settings.earlier_embeddings_url, settings.earlier_embedding_dimensions),
    )
    yield from ((name, partial(check_dimensions, url, length)) for name, url, length in lengths if url and length)
    if settings.deployment_mode == "self_hosted" and settings.license:
        yield "MEMLANE_LICENSE", partial(_check_license, settings.license, settings.license_keys or "")


def _check_license(license_: str, trusted_keys: str) -> None:
    """Whether it is a license that one of the keys signed; its dates and its organization are decided on each request.

    Raises:
        Misconfigured: It is not, and never will be.
    """
    try:
        keys = parse_trusted_keys(trusted_keys)
    except Misconfigured:
        keys = {}  # a fault of MEMLANE_LICENSE_KEYS, told there
    try:
        read_license(license_, keys)
    except LicenseRejected as fault:
        if keys or fault.reason is not LicenseFault.UNKNOWN_KEY:
            raise Misconfigured(f"{fault.reason.value}: {fault}") from None


def _fault_of(name: str, check: Check) -> list[Fault]:
    try:
        check()
    except Misconfigured as fault:
        return [Fault(name, fault.message)]
    return []
