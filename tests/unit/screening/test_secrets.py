"""Credentials are found in running text, and what only looks like one is let through."""

import time

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
    ),
    "GitHub Token": ("Use ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5" + " for CI",),
    "AWS Access Key": ("AKIA" + "IOSFODNN7EXAMPLE",),
    "JSON Web Token": ("eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",),
    "Slack Token": ("xoxb-" + "123456789012-abcdefghijkl",),
    "Stripe Access Key": ("sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc",),
    "API token": (
        "cpk-shop_Oq8LJtuvgUTg_" + "SQlFJajVhvxRY4dcnDzDZ2oAqFd69dQxlozKqaaEoIo",
        "sk-ant-" + "api03-abcdefghijklmnopqrstu",
        "github_pat_" + "11ABCDEFG0abcdefghijklmnopqrstuvwxyz0123456789",
        "AIza" + "SyA1234567890abcdefghijklmnopqrstuv",
        "Send Authorization: Bearer " + "abcdef1234567890abcdef",
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


@pytest.mark.parametrize(
    "unit", ["password ", "password:", "a", "aB3", "://a:", "eyJ", "secret'", "password is ", "-", "//", 'pass["', "="]
)
def test_no_text_takes_long(unit: str) -> None:
    text = (unit * 8192)[:8192]
    began = time.process_time()
    SCANNER.find(text)
    assert time.process_time() - began < 0.5
