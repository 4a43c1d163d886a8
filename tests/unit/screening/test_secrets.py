"""Credentials are found in running text, and what only looks like one is let through."""

import base64
import random
import string
import time
import uuid
from collections.abc import Callable

import pytest

from memlane.screening.secrets import DetectSecrets

SCANNER = DetectSecrets()

SECRETS = {
    "Private Key": (
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE",
        "It begins BEGIN ENCRYPTED PRIVATE KEY",
        "AGE-SECRET-KEY-1" + "Q" * 58,
    ),
    "Basic Auth Credentials": (
        "The database is postgres://app:hunter2@db.internal/shop",
        "https://me:p4ss@example.org",
        "The cache is redis://:s3cretPassw0rd@cache:6379/0",
        "amqp://:a=b@mq",
        "postgres://app:p!ss$w0rd@db/shop",
        "curl -u admin:Sup3rS3cret https://shop.example.org",
        "curl -X POST --user 'admin:hunter2' https://shop.example.org",
        "curl https://shop.example.org \\\n  -sSu admin:hunter2",
    ),
    "Webhook URL": (
        "https://discord.com/api/webhooks/" + "123456789012345678/" + "aB3dE5gH7jK9" * 6,
        "https://discordapp.com/api/v10/webhooks/" + "123456789012345678/" + "aB3dE5gH7jK9" * 6,
        "https://hooks.slack.com/triggers/" + "T0123ABCD/1234567890123/" + "0123456789abcdef" * 2,
    ),
    "OpenAI Token": ("sk-" + "a1b2c3d4e5f6g7h8i9j0" + "T3BlbkFJ" + "a1b2c3d4e5f6g7h8i9j0",),
    "GitHub Token": ("Use ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5" + " for CI",),
    "AWS Access Key": ("AKIA" + "IOSFODNN7EXAMPLE",),
    "JSON Web Token": ("eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",),
    "Slack Token": (
        "xoxb-" + "123456789012-abcdefghijkl",
        "https://hooks.slack.com/services/" + "T0123ABCD/B0123ABCD/" + "aB3dE5gH7jK9mN1pQ3sT5vW7",
    ),
    "Stripe Access Key": ("sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc",),
    "API token": (
        "cpk-shop_Oq8LJtuvgUTg_" + "SQlFJajVhvxRY4dcnDzDZ2oAqFd69dQxlozKqaaEoIo",
        "sk-ant-" + "api03-abcdefghijklmnopqrstu",
        "github_pat_" + "11ABCDEFG0abcdefghijklmnopqrstuvwxyz0123456789",
        "AIza" + "SyA1234567890abcdefghijklmnopqrstuv",
        "Send Authorization: Bearer " + "abcdef1234567890abcdef",
        "hvs." + "CAESIJ1a2b3c4d5e6f7g8h9i",
        "hvb." + "AAAAAQJ1a2b3c4d5e6f7g8h9",
        "AWS_SECRET_ACCESS_KEY: wJalrXUtnFEMI/" + "K7MDENG/bPxRfiCYEXAMPLEKEY",
    ),
    "Password": (
        "The password is hunter2",
        "Das Passwort ist Sommer2024!",
        "password: correct-horse1",
        "The wifi password for the office is Tr0ub4dor&3",
        "api_key = sdfsdfsdf",
        "PWD=s3cr3t!x",
    ),
    "High entropy string": (
        "The token for staging is Zx81kQp09LmNvT4rYbE2.",
        "Key 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
        "n8Pq2/Xv+Zr7Lk0Wd9Tf3Bs6Gh1Jm4Cy5Ae8Uo==",
    ),
}

CLEAN = (
    "Prefers concise status updates.",
    "Deployed commit 9fceb02d0ae598e95dc970b74767f19372d61af8.",
    "The image digest is sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08.",
    "Memory 0193b6f0-1111-7000-8000-000000000000 is out of date.",
    "See https://github.com/ag-ui-protocol/ag-ui/blob/main/integrations/middleware/README2.md for details.",
    "src/components/UserProfile/ProfileCardHeaderV2.test.tsx is flaky.",
    "Call +4915112345678901 about order 4711-2026-000123456789.",
    "IBAN DE89370400440532013000 is the company's account.",
    "The password is required to have 12 characters.",
    "The password is in 1Password.",
    "Passwords must be rotated every 90 days.",
    "password: ask Tom",
    "Keep API keys in Vault at secret/data/shop.",
    "The secret is patience.",
    "Set max_connections=200 and shared_buffers=4GB.",
    "Uses Python3.11, Postgres18 and pgvector0.8 on k8s1.31.",
    "The release is due on 2026-11-30T11:20:00Z.",
    "We meet at 10:30 @ cafe, or at 10:30@cafe.",
    "Write to mailto:ann@example.org.",
    "Vite serves http://localhost:8080/@fs and http://localhost:8080,ann@example.org knows why.",
    "See https://medium.com/@user/x:y and https://esm.sh/react@18:x.",
    "Clone git@github.com:org/repo.git or ssh://git@github.com:22/org/repo.git.",
    "The ratio 3:2@home is old.",
    "The user is named in postgres://app@db:5432/shop and in https://app:@db.",
    "Use redis://:${REDIS_PASSWORD}@cache, redis://:<password>@cache or redis://:***@cache.",
    "Run curl -u admin https://shop.example.org and type the password.",
    'Run curl -u "$USER:$PASSWORD" https://shop.example.org.',
    "Run curl in docker run -u 1000:1000 curlimages/curl.",
    "Run curl https://shop.example.org | docker exec -i -u www:www-data shop tee page.",
    "Webhooks go to discord.com/api/webhooks/<id>/<token> and hooks.slack.com.",
    "Vault's tokens begin with hvs. or hvb.",
    "用户喜欢简短的状态更新。",
    "🙂" * 50,
)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        pytest.param(kind, text, id=f"{kind} {place}")
        for kind, texts in SECRETS.items()
        for place, text in enumerate(texts, start=1)
    ],
)
def test_a_credential_is_found_and_its_kind_told(kind: str, text: str) -> None:
    assert SCANNER.find(text) == kind
    assert SCANNER.find(f"Note for later:\n{text}\nas agreed.") == kind


@pytest.mark.parametrize("text", CLEAN)
def test_what_only_looks_like_one_is_let_through(text: str) -> None:
    assert SCANNER.find(text) is None


UNITS = (
    "password ", "password:", "password=", "password is ", "pwd for a", "a", "aB3", "1", "é", " ", "\n", "-", "//", "=",
    ":", "@", "a:", "1:", "x:@", "://a:", "://:", "://:$", "://!:", "eyJ", "eyJ=", "eyJa.", "secret'", 'pass["',
    "curl ", "curl -", "curl -u ", "curl -uu", "curl -u a:", "curl -u a:$", "hvs.", "sk-", "T3BlbkFJ", "gh", "ghp_a",
    "AKIA", "cpk-a", "xoxb-1-", "discord.com/api/webhooks/1", "hooks.slack.com/services/a/",
)  # fmt: skip


def seconds(text: str, *, is_id: bool, tries: int) -> float:
    """The least processor time of several tries."""
    times = []
    for _ in range(tries):
        began = time.process_time()
        SCANNER.find(text, is_id=is_id)
        times.append(time.process_time() - began)
    return min(times)


@pytest.mark.parametrize("is_id", [False, True], ids=["text", "id"])
@pytest.mark.parametrize("unit", UNITS)
def test_no_text_takes_long(unit: str, is_id: bool) -> None:
    assert seconds((unit * 8192)[:8192], is_id=is_id, tries=3) < 0.05
    # Eight times as long: what grew with the square would take 64 times as long.
    assert seconds((unit * 65536)[:65536], is_id=is_id, tries=1) < 0.5


# --- Ids

ID_SECRETS = {
    "Basic Auth Credentials": ("postgres://app:pw@host", "redis://:s3cretPassw0rd@cache:6379/0"),
    "Private Key": ("-----BEGIN OPENSSH PRIVATE KEY-----", "AGE-SECRET-KEY-1" + "Q" * 58),
    "GitHub Token": ("ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5",),
    "API token": (
        "github_pat_" + "11ABCDEFG0abcdefghijklmnopqrstuvwxyz0123456789",
        "sk-ant-" + "api03-abcdefghijklmnopqrstu",
        "cpk-shop_Oq8LJtuvgUTg_" + "SQlFJajVhvxRY4dcnDzDZ2oAqFd69dQxlozKqaaEoIo",
        "hvs." + "CAESIJ1a2b3c4d5e6f7g8h9i",
        "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH",
        "Bearer " + "abcdef1234567890abcdef",
    ),
    "AWS Access Key": ("AKIA" + "IOSFODNN7EXAMPLE",),
    "JSON Web Token": ("eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",),
    "Slack Token": ("xoxb-" + "123456789012-abcdefghijkl",),
    "Password": ("password=hunter2",),
}

BASE62 = string.digits + string.ascii_letters
CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
LOTS = random.Random(20261130)  # noqa: S311 - the same ids in every run


def drawn(alphabet: str, length: int) -> str:
    return "".join(LOTS.choices(alphabet, k=length))


def base64url(octets: int) -> str:
    return base64.urlsafe_b64encode(LOTS.randbytes(octets)).decode().rstrip("=")


RANDOM_IDS: dict[str, Callable[[], str]] = {
    "uuid": lambda: str(uuid.UUID(int=LOTS.getrandbits(128), version=4)),
    "uuid in hex": lambda: LOTS.randbytes(16).hex(),
    "ulid": lambda: drawn(CROCKFORD, 26),
    "nanoid": lambda: drawn(BASE62 + "_-", 21),
    "16 bytes": lambda: base64url(16),
    "24 bytes": lambda: base64url(24),
    "32 bytes": lambda: base64url(32),
    "hex 40": lambda: LOTS.randbytes(20).hex(),
    "hex 64": lambda: LOTS.randbytes(32).hex(),
    "base32": lambda: drawn(string.ascii_uppercase + "234567", 32),
    "number": lambda: str(LOTS.randrange(10**7, 10**20)),
    "thread": lambda: f"thread_{drawn(BASE62, 24)}",
    "typed": lambda: f"key:{base64url(32)}",
    "chat": lambda: f"{LOTS.randrange(10**8, 10**10)}:{base64url(27)}",
    "workflow": lambda: f"wf-2026-11-30-{LOTS.randrange(10**4):04}",
}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in ID_SECRETS.items() for text in texts])
def test_a_credential_in_place_of_an_id_is_found(kind: str, text: str) -> None:
    for one in (text, f"thread:{text}", f"thread-1\n{text}\nthread-2"):
        assert SCANNER.find(one, is_id=True) == kind


@pytest.mark.parametrize("form", RANDOM_IDS)
def test_an_id_that_is_drawn_at_random_is_let_through(form: str) -> None:
    ids = [RANDOM_IDS[form]() for _ in range(20_000)]
    assert SCANNER.find("\n".join([*ids, *(f"run_{one}" for one in ids)]), is_id=True) is None


@pytest.mark.parametrize("text", ["reset-password:user-42", "secret:4711-a", "AC" + "0a" * 16, "eyJhbGciOiJIUzI1NiJ9"])
def test_an_id_that_names_a_secret_is_let_through(text: str) -> None:
    assert SCANNER.find(text, is_id=True) is None
