"""The settings: every fault at once, by name and reason, and never a value."""

import dataclasses
from datetime import timedelta

import pytest

from memlane.auth.licenses import generate_keypair
from memlane.config import ConfigurationFaults, Settings
from memlane.embedding.configured import make_earlier_embedder, make_judge, make_reranker
from memlane.embedding.judges import ChatJudge, EntailmentJudge
from memlane.embedding.reranker import TeiReranker
from memlane.preflight import load_settings
from support.service import Deployment

DEPLOYMENT = Deployment("postgresql://unused/")
SECRET = "s3cr3t-that-nobody-may-see-0123456789"
COMPLETE = {
    "DATABASE_URL": f"postgresql://memlane:{SECRET}@db.internal/memlane",
    "MEMORY_EMBEDDINGS_URL": "http://tei:8080",
    "MEMORY_EMBEDDING_MODEL": "intfloat/multilingual-e5-small",
    "MEMORY_EMBEDDING_DIMENSIONS": "384",
    "MEMORY_EMBEDDINGS_API_KEY": SECRET,
    "MEMLANE_DEPLOYMENT_MODE": "self_hosted",
    "MEMLANE_JOIN_SECRETS": f"{SECRET},{SECRET[::-1]}",
    "MEMLANE_LICENSE": DEPLOYMENT.license(),
    "MEMLANE_LICENSE_KEYS": f"test:{DEPLOYMENT.signer.public}",
    "REDIS_URL": f"redis://:{SECRET}@redis:6379/0",
}
REQUIRED = [name for name in COMPLETE if name not in {"MEMORY_EMBEDDINGS_API_KEY", "REDIS_URL"}]


def faults_of(**changes: str | None) -> dict[str, str]:
    """The faults of an environment that is complete but for these changes; None takes a variable away."""
    environment = {name: value for name, value in (COMPLETE | changes).items() if value is not None}
    with pytest.raises(ConfigurationFaults) as raised:
        load_settings(environment)
    return {fault.name: fault.reason for fault in raised.value.faults}


def test_a_complete_environment_gives_frozen_settings() -> None:
    settings = load_settings(COMPLETE)
    assert settings.embedding_dimensions == 384
    assert settings.deployment_mode == "self_hosted"
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.port = 1  # type: ignore[misc]


def test_no_secret_is_in_the_repr_of_the_settings() -> None:
    assert SECRET not in repr(load_settings(COMPLETE))


def test_an_empty_environment_names_everything_that_is_required_at_once() -> None:
    with pytest.raises(ConfigurationFaults) as raised:
        load_settings({})
    assert sorted(fault.name for fault in raised.value.faults) == sorted(REQUIRED)


@pytest.mark.parametrize("name", REQUIRED)
def test_each_required_setting_is_missed_by_name(name: str) -> None:
    assert list(faults_of(**{name: None})) == [name]


@pytest.mark.parametrize("name", REQUIRED)
def test_a_blank_setting_counts_as_missing(name: str) -> None:
    assert "required" in faults_of(**{name: "  "})[name]


def test_a_managed_deployment_needs_no_license() -> None:
    managed = COMPLETE | {"MEMLANE_DEPLOYMENT_MODE": "managed"}
    del managed["MEMLANE_LICENSE"], managed["MEMLANE_LICENSE_KEYS"]
    assert load_settings(managed).license is None


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("DATABASE_URL", "mysql://localhost/memlane", "postgresql://"),
        ("DATABASE_URL", "localhost", "postgresql://"),
        ("DATABASE_URL", "postgresql://host:port/db", "not a URL"),
        ("MEMORY_EMBEDDINGS_URL", "ftp://tei", "http://"),
        ("MEMORY_EMBEDDINGS_URL", "http:///embed", "host"),
        ("MEMORY_EMBEDDINGS_URL", "http://:80", "host"),
        ("MEMORY_EMBEDDING_DIMENSIONS", "0", "from 1 to 4000"),
        ("MEMORY_EMBEDDING_DIMENSIONS", "4001", "from 1 to 4000"),
        ("MEMORY_EMBEDDING_DIMENSIONS", "384.0", "whole number"),
        ("MEMORY_EMBEDDING_DIMENSIONS", "-384", "whole number"),
        ("MEMORY_EMBEDDING_DIMENSIONS", "٣٨٤", "whole number"),
        ("MEMORY_EMBEDDING_DIMENSIONS", "9" * 5000, "from 1 to 4000"),
        ("MEMLANE_DEPLOYMENT_MODE", "cloud", "self_hosted, managed"),
        ("MEMLANE_JOIN_SECRETS", "x" * 31, "secret 1 is shorter than 32 bytes"),
        ("MEMLANE_JOIN_SECRETS", f"{'x' * 32},{'y' * 31}", "secret 2 is shorter"),
        ("MEMLANE_JOIN_SECRETS", f"{'x' * 32},", "secret 2 is shorter"),
        ("MEMLANE_DATABASE_POOL", "0", "from 1 to 500"),
        ("MEMLANE_DATABASE_POOL", "many", "whole number"),
        ("MEMLANE_DATABASE_POOLER", "session", "none, transaction"),
        ("MEMLANE_PORT", "70000", "from 1 to 65535"),
        ("MEMLANE_METRICS_PORT", "metrics", "whole number"),
        ("MEMLANE_LOG_LEVEL", "verbose", "DEBUG, INFO, WARNING, ERROR"),
        ("MEMLANE_LICENSE_KEYS", "no-colon", "entry 1"),
        ("MEMLANE_LICENSE_KEYS", "main:short", "entry 1"),
        ("REDIS_URL", "http://redis", "redis://"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318", "http://"),
    ],
)
def test_a_wrong_value_is_told_by_name_and_reason_and_not_by_value(name: str, value: str, reason: str) -> None:
    faults = faults_of(**{name: value})
    assert list(faults) == [name]
    assert reason in faults[name]
    if len(value) > 3:
        assert value not in faults[name]


KEY = "0123456789-abcdefghijklmnopqrstuvwxyz-ABCDE"
ONLY_ITS_USER_CAN_TELL: list[tuple[str, str, str]] = [
    ("DATABASE_URL", f"postgresql://u:{SECRET}@db/memlane?sslmode=bogus", "connection string"),
    ("DATABASE_URL", f"postgresql://u:{SECRET}@db/memlane?target_session_attrs=bogus", "connection string"),
    ("DATABASE_URL", f"postgresql://u:{SECRET}@/memlane?host=db&port=nine", "connection string"),
    ("MEMLANE_JOIN_SECRETS", f"{SECRET},{SECRET}", "secret 2 is given twice"),
    ("MEMLANE_JOIN_SECRETS", ",".join(f"{place}{SECRET}" for place in range(9)), "1 to 8 secrets"),
    ("MEMLANE_JOIN_SECRETS", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ", "asymmetric key"),
    ("MEMLANE_LICENSE_KEYS", f"main:{KEY},main:{KEY}", "entry 2 repeats a key id"),
    ("MEMORY_EMBEDDINGS_URL", f"http://u:{SECRET}@tei:8080", "credentials"),
    ("MEMORY_EMBEDDINGS_URL", "http://tei-of-the-house:0/", "port from 1 to 65535"),
    ("MEMORY_EMBEDDINGS_URL", "http://tei of the house/", "name a host"),
    ("MEMORY_EMBEDDINGS_API_KEY", f"{SECRET} with words", "header"),
    ("MEMORY_EARLIER_EMBEDDINGS_API_KEY", f"{SECRET}\u00e9", "header"),
    ("MEMLANE_JUDGE_URL", f"http://u:{SECRET}@judge", "credentials"),
    ("MEMLANE_JUDGE_API_KEY", f"{SECRET} with words", "header"),
    ("MEMLANE_RERANKER_URL", f"http://u:{SECRET}@reranker", "credentials"),
    ("MEMLANE_RERANKER_API_KEY", f"{SECRET} with words", "header"),
    ("REDIS_URL", f"redis://:{SECRET}@redis:6379/0?socket_timeout=soon", "URL"),
    ("REDIS_URL", f"redis://:{SECRET}@redis:6379/0?no_such_option=1", "URL"),
]


@pytest.mark.parametrize(("name", "value", "reason"), ONLY_ITS_USER_CAN_TELL)
def test_a_value_that_only_its_user_can_tell_wrong_is_told_by_name_and_reason_and_not_by_value(
    name: str, value: str, reason: str
) -> None:
    faults = faults_of(**{name: value})
    assert list(faults) == [name]
    assert reason in faults[name]
    for secret in (value, SECRET, KEY):
        assert secret not in faults[name]


def test_faults_of_form_and_faults_that_only_the_user_of_a_value_can_tell_are_told_together() -> None:
    """The last of each name, and three of form beside them."""
    wrong = {name: value for name, value, _ in ONLY_ITS_USER_CAN_TELL}
    wrong |= {"MEMLANE_PORT": "4201/tcp", "MEMLANE_LOG_LEVEL": "loud", "MEMORY_EMBEDDING_MODEL": ""}
    with pytest.raises(ConfigurationFaults) as raised:
        load_settings(COMPLETE | wrong)
    assert {fault.name for fault in raised.value.faults} == set(wrong)
    assert len(raised.value.faults) == len(wrong)
    assert SECRET not in str(raised.value)


STRANGER = Deployment("postgresql://unused/")
NO_LICENSES = {
    "rubbish": ("not-a-license", "malformed"),
    "of-another-algorithm": ("eyJhbGciOiJIUzI1NiIsImtpZCI6InRlc3QifQ.e30.c2ln", "wrong_algorithm"),
    "cut": (DEPLOYMENT.license()[:-8], "bad_signature"),
    "of-a-stranger": (STRANGER.license(), "bad_signature"),
}


@pytest.mark.parametrize("kind", NO_LICENSES)
def test_what_no_trusted_key_signed_is_no_license_whatever_the_time(kind: str) -> None:
    license_, reason = NO_LICENSES[kind]
    faults = faults_of(MEMLANE_LICENSE=license_)
    assert list(faults) == ["MEMLANE_LICENSE"]
    assert faults["MEMLANE_LICENSE"].startswith(f"{reason}: ")
    assert license_ not in faults["MEMLANE_LICENSE"]


def test_a_license_of_an_unknown_key_id_is_told_to_be_so() -> None:
    faults = faults_of(MEMLANE_LICENSE_KEYS=f"next:{generate_keypair().public}")
    assert list(faults) == ["MEMLANE_LICENSE"]
    assert "unknown_key" in faults["MEMLANE_LICENSE"]


def test_wrong_keys_are_told_without_blaming_the_license_and_rubbish_is_told_beside_them() -> None:
    assert list(faults_of(MEMLANE_LICENSE_KEYS="test:short")) == ["MEMLANE_LICENSE_KEYS"]
    both = faults_of(MEMLANE_LICENSE_KEYS="test:short", MEMLANE_LICENSE="a.b.c")
    assert both.keys() == {"MEMLANE_LICENSE_KEYS", "MEMLANE_LICENSE"}


@pytest.mark.parametrize(
    "license_",
    [
        DEPLOYMENT.license(starts_in=timedelta(days=-9), ends_in=timedelta(days=-1)),
        DEPLOYMENT.license(starts_in=timedelta(days=9)),
        DEPLOYMENT.license(organization="globex"),
        DEPLOYMENT.license(features={}),
    ],
    ids=["expired", "not-yet-valid", "of-another-organization", "without-the-feature"],
)
def test_what_a_good_signature_says_of_dates_and_rights_is_no_fault_of_the_settings(license_: str) -> None:
    assert load_settings(COMPLETE | {"MEMLANE_LICENSE": license_}).license == license_


def test_a_managed_deployment_reads_no_license() -> None:
    managed = {"MEMLANE_DEPLOYMENT_MODE": "managed", "MEMLANE_LICENSE": "a.b.c"}
    assert load_settings(COMPLETE | managed).deployment_mode == "managed"


@pytest.mark.parametrize("earlier", ["", "EARLIER_"])
def test_the_offline_model_has_384_dimensions_and_no_others(earlier: str) -> None:
    offline = {
        f"MEMORY_{earlier}EMBEDDINGS_URL": "local://",
        f"MEMORY_{earlier}EMBEDDING_MODEL": "all-MiniLM-L6-v2-int8",
        f"MEMORY_{earlier}EMBEDDING_DIMENSIONS": "384",
    }
    load_settings(COMPLETE | offline)
    faults = faults_of(**offline | {f"MEMORY_{earlier}EMBEDDING_DIMENSIONS": "768"})
    assert list(faults) == [f"MEMORY_{earlier}EMBEDDING_DIMENSIONS"]
    assert "must be 384" in faults[f"MEMORY_{earlier}EMBEDDING_DIMENSIONS"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", "postgresql:///memlane?host=/run/postgresql&user=memlane&application_name=x"),
        ("DATABASE_URL", f"postgres://u:{SECRET}@db:6432/memlane?sslmode=require&target_session_attrs=read-write"),
        ("REDIS_URL", f"rediss://user:{SECRET}@redis:6380/1"),
        ("REDIS_URL", "unix:///run/redis.sock?db=1"),
        ("MEMORY_EMBEDDINGS_URL", "https://api.openai.com/v1/embeddings?tier=2"),
    ],
)
def test_what_works_is_not_refused(name: str, value: str) -> None:
    assert isinstance(load_settings(COMPLETE | {name: value}), Settings)


def test_many_wrong_values_are_told_together_and_no_secret_among_them() -> None:
    with pytest.raises(ConfigurationFaults) as raised:
        load_settings(dict.fromkeys(COMPLETE, SECRET[:20]))
    assert {fault.name for fault in raised.value.faults} >= {
        "DATABASE_URL",
        "MEMORY_EMBEDDINGS_URL",
        "MEMORY_EMBEDDING_DIMENSIONS",
        "MEMLANE_DEPLOYMENT_MODE",
        "MEMLANE_JOIN_SECRETS",
        "REDIS_URL",
    }
    assert SECRET[:20] not in str(raised.value)


def test_defaults_are_those_of_a_container() -> None:
    settings = load_settings(COMPLETE)
    assert settings.host == "0.0.0.0"  # noqa: S104 - in a container the service must be reachable
    assert (settings.port, settings.metrics_port, settings.log_level) == (4201, None, "INFO")
    assert isinstance(settings, Settings)


def test_limits_have_defaults_and_can_be_lifted() -> None:
    settings = load_settings(COMPLETE)
    assert (settings.rate_per_user, settings.rate_lane_writes, settings.max_live_memories) == (200, 1_000, 100_000)
    names = ("MEMLANE_RATE_PER_USER", "MEMLANE_RATE_LANE_WRITES", "MEMLANE_MAX_LIVE_MEMORIES")
    lifted = load_settings(COMPLETE | dict.fromkeys(names, "none"))
    assert (lifted.rate_per_user, lifted.rate_lane_writes, lifted.max_live_memories) == (None, None, None)
    for name in names:
        assert "whole number" in faults_of(**{name: "0"})[name]


def test_mcp_answers_to_loopback_and_to_the_names_it_is_given_on_any_port() -> None:
    assert "localhost:*" in load_settings(COMPLETE).mcp_hosts
    hosts = load_settings(COMPLETE | {"MEMLANE_MCP_HOSTS": "memory.example.com, api:4201"}).mcp_hosts
    assert {"memory.example.com", "memory.example.com:*", "api:4201", "127.0.0.1:*"} <= set(hosts)
    assert "api:*" not in hosts
    for wrong in ("*", "https://x", "a b", "x:y"):
        assert "host name" in faults_of(MEMLANE_MCP_HOSTS=wrong)["MEMLANE_MCP_HOSTS"]


def test_without_a_word_of_them_there_is_no_judge_no_reranker_and_no_earlier_model() -> None:
    settings = load_settings(COMPLETE)
    assert (settings.judge, settings.reranker_url, settings.earlier_embeddings_url) == ("none", None, None)
    assert make_judge(settings) is None
    assert make_reranker(settings) is None
    assert make_earlier_embedder(settings) is None


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"MEMLANE_JUDGE": "entailment"}, {"MEMLANE_JUDGE_URL"}),
        ({"MEMLANE_JUDGE": "chat"}, {"MEMLANE_JUDGE_URL", "MEMLANE_JUDGE_MODEL"}),
        ({"MEMLANE_JUDGE": "oracle"}, {"MEMLANE_JUDGE"}),
        ({"MEMLANE_JUDGE_BOUND": "0.2"}, {"MEMLANE_JUDGE_BOUND"}),
        ({"MEMLANE_JUDGE_BOUND": "high"}, {"MEMLANE_JUDGE_BOUND"}),
        ({"MEMLANE_JUDGE_BOUND": "nan"}, {"MEMLANE_JUDGE_BOUND"}),
        ({"MEMLANE_RERANKER_URL": "ftp://host"}, {"MEMLANE_RERANKER_URL"}),
        (
            {"MEMORY_EARLIER_EMBEDDINGS_URL": "http://old"},
            {"MEMORY_EARLIER_EMBEDDING_MODEL", "MEMORY_EARLIER_EMBEDDING_DIMENSIONS"},
        ),
    ],
)
def test_what_a_judge_a_reranker_or_an_earlier_model_lacks_is_named(changes: dict[str, str], missing: set[str]) -> None:
    assert set(faults_of(**changes)) == missing


async def test_what_is_named_is_built() -> None:
    both = COMPLETE | {
        "MEMLANE_JUDGE": "entailment",
        "MEMLANE_JUDGE_URL": "http://judge",
        "MEMLANE_JUDGE_API_KEY": SECRET,
        "MEMLANE_JUDGE_BOUND": "0.95",
        "MEMLANE_RERANKER_URL": "http://reranker",
        "MEMORY_EARLIER_EMBEDDINGS_URL": "http://old",
        "MEMORY_EARLIER_EMBEDDING_MODEL": "old",
        "MEMORY_EARLIER_EMBEDDING_DIMENSIONS": "768",
    }
    settings = load_settings(both)
    assert SECRET not in repr(settings)
    judge, reranker, earlier = make_judge(settings), make_reranker(settings), make_earlier_embedder(settings)
    assert isinstance(judge, EntailmentJudge)
    assert isinstance(reranker, TeiReranker)
    assert earlier is not None
    assert earlier.space.dimensions == 768
    chat = load_settings(both | {"MEMLANE_JUDGE": "chat", "MEMLANE_JUDGE_MODEL": "arbiter"})
    chat_judge = make_judge(chat)
    assert isinstance(chat_judge, ChatJudge)
    for model in (judge, reranker, earlier, chat_judge):
        await model.aclose()
