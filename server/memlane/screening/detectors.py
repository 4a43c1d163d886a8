"""Detectors beside the library's: token shapes that it does not know, and randomness in running text.

Every expression takes time in proportion to a text's length, whatever the text is: one caller's text must not hold up
the others. Where one of the library's does not, another stands here in its place.
"""

import math
import re
from collections.abc import Generator, Iterator
from itertools import pairwise

from detect_secrets.plugins.base import RegexBasedDetector
from detect_secrets.plugins.basic_auth import BasicAuthDetector
from detect_secrets.plugins.high_entropy_strings import Base64HighEntropyString, HexHighEntropyString
from detect_secrets.plugins.jwt import JwtTokenDetector

RANDOM_MIN = 20
"""Shortest run of base64 characters that is looked at: shorter ones are too often a name or a number."""
HEX_MIN = 32
"""Shortest run of hex digits that is looked at: 128 bits."""
BASE64_ENTROPY = 3.7
"""Least Shannon entropy of a run, in bits a character: 20 random ones of base64 have 4.0 on average."""
TURNS = 0.37
"""Least share of neighbours of another kind (capital, small letter, digit): 0.62 on average in base64, about 0.3 in
CamelCase."""

_RUN = re.compile(rf"[A-Za-z0-9+/_=-]{{{RANDOM_MIN},}}")
_HEX_RUN = re.compile(rf"(?<![A-Za-z0-9+/_=-])(?:0x)?([0-9a-fA-F]{{{HEX_MIN},}})(?![A-Za-z0-9+/_=-])")
_PUBLIC_HASH = re.compile(
    r"(?:commit|revision|rev|sha-?1|sha-?256|sha-?512|md5|checksum|digest|hash|etag|fingerprint|tree|blob)\W{0,3}$",
    re.IGNORECASE,
)
"""What stands before a hash that is no secret: `commit 9fceb02d…`, `sha256:…`."""
_PUBLIC_HASH_MAX = 16
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")

_MARKED_TOKENS = (
    r"cpk-[a-z0-9-]{1,63}_[0-9A-Za-z]{12}_[0-9A-Za-z]{43,128}",  # our own runtime key
    r"github_pat_[0-9A-Za-z_]{40,}",
    r"sk-(?:ant|proj|svcacct|or)-[0-9A-Za-z_-]{20,}",
    r"AIza[0-9A-Za-z_-]{35}",
    r"ya29\.[0-9A-Za-z_-]{20,}",
    r"hv[sbr]\.[0-9A-Za-z_-]{24,}",  # HashiCorp Vault
    r"(?:glpat|gldt|glrt)-[0-9A-Za-z_-]{20,}",
    r"xapp-\d-[A-Z0-9]+-\d+-[a-z0-9]+",
    r"dop_v1_[a-f0-9]{64}",
    r"(?:sk|rk|pk)_(?:live|test)_[0-9a-zA-Z]{16,}",
    r"whsec_[0-9A-Za-z+/=]{24,}",
    r"npm_[0-9A-Za-z]{36}",
    r"Bearer +[0-9A-Za-z._~+/-]{20,}=*",
)
_VENDOR_TOKENS = (
    *_MARKED_TOKENS,
    r"(?i:aws).{0,40}?(?<![A-Za-z0-9/+=])(?=\S{0,39}[a-z])(?=\S{0,39}[A-Z])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])",
    r"sk-[0-9A-Za-z]{40,}",
    r"hf_[A-Za-z0-9]{30,}",
)


class VendorTokenDetector(RegexBasedDetector):
    """Tokens whose shape tells them, of kinds that the library lacks."""

    secret_type = "API token"
    # One expression: each that begins at a word's edge goes through the whole text.
    denylist = (re.compile(rf"\b(?:{'|'.join(_VENDOR_TOKENS)})"),)


class MarkedTokenDetector(RegexBasedDetector):
    """Those of them that no id looks like, however it was made; an id may put `run_` before one."""

    secret_type = "API token"
    denylist = (re.compile(rf"(?<![0-9A-Za-z])(?:{'|'.join(_MARKED_TOKENS)}|hf_[A-Za-z]{{34}}(?![0-9A-Za-z]))"),)


class MarkedGitHubToken(RegexBasedDetector):
    """The library's, at an edge only: its four characters do come up within long random ids."""

    secret_type = "GitHub Token"
    denylist = (re.compile(r"(?<![0-9A-Za-z])gh[pousr]_[0-9A-Za-z_]{36}"),)


class MarkedAwsKey(RegexBasedDetector):
    """The library's, as a word of its own and with the two usual prefixes: a ULID can hold the others."""

    secret_type = "AWS Access Key"
    denylist = (re.compile(r"(?<![0-9A-Za-z])(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Za-z])"),)


class LinearJwt(RegexBasedDetector):
    """The library's, whose own expression takes time in the square of a text of `eyJ`."""

    secret_type = "JSON Web Token"
    # What goes on without a dot is taken too, so that no search begins anew within it.
    denylist = (re.compile(r"eyJ[A-Za-z0-9_=-]+(?:\.[A-Za-z0-9_=-]+\.?[A-Za-z0-9_.+/=-]*?)?"),)

    def analyze_string(self, string: str) -> Generator[str, None, None]:
        """Each that has a header and a payload in JSON."""
        for token in super().analyze_string(string):
            if "." in token and JwtTokenDetector.is_formally_valid(token):
                yield token


class LinearOpenAI(RegexBasedDetector):
    """The library's by the mark in its middle: the search for its beginning takes time in the square of a text."""

    secret_type = "OpenAI Token"
    denylist = (re.compile(r"T3BlbkFJ(?<=[A-Za-z0-9]{28})[A-Za-z0-9]{20}"),)


class WebhookUrl(RegexBasedDetector):
    """Addresses that whoever knows them can post to; of Slack's the library knows the oldest alone."""

    secret_type = "Webhook URL"
    denylist = (
        re.compile(r"hooks\.slack\.com/(?:services|workflows|triggers)/[0-9A-Za-z]+/[0-9A-Za-z]+/[0-9A-Za-z/]{16,}"),
        re.compile(r"discord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/\d{17,20}/[0-9A-Za-z_-]{60,}"),
    )


_FILLED_IN = r"(?![$<{*.…]|%[(s])"
"""No password but what stands in place of one: `$REDIS_PASSWORD`, `{password}`, `<password>`, `***`."""


class PasswordInCall(RegexBasedDetector):
    """The library's passwords in URLs, those without a user or with more signs, and those of `curl -u`."""

    secret_type = "Basic Auth Credentials"
    denylist = (
        *BasicAuthDetector.denylist,
        re.compile(rf"://[^\s:/?#@\[\](),;'\"<>`]*:{_FILLED_IN}([^\s/?#@\[\](),;'\"<>`]+)@(?=\S)"),
        # Not across a pipe: `-u` is an option of others too, and so are two numbers of `docker run -u 1000:1000`.
        re.compile(
            r"curl\b(?:\\\n|[^|\n]){0,200}?\s(?:-[A-Za-z]{0,8}[uU]|--(?:proxy-)?user)[ =]{0,3}[\"'“]?"
            rf"(?!\d+:\d+\b)[^\s:/@\"'$<{{]{{1,64}}:(?!/){_FILLED_IN}([^\s\"'”`]{{3,}})"
        ),
    )


class MorePrivateKeys(RegexBasedDetector):
    """Private keys under headers that the library lacks."""

    secret_type = "Private Key"
    denylist = (
        re.compile(r"BEGIN (?:ENCRYPTED|[A-Z0-9 ]{1,24}) ?PRIVATE KEY"),
        re.compile(r"PuTTY-User-Key-File-\d"),
        re.compile(r"\bAGE-SECRET-KEY-1[0-9A-Z]{20,}"),
    )


class AssignedPassword(RegexBasedDetector):
    """A password or token in the form of a setting: `password=hunter2`."""

    secret_type = "Password"
    denylist = (
        re.compile(
            r"\b(?:password|passwd|passphrase|pwd|secret|api[_ -]?key|(?:auth|access)[_ -]?token|client[_ -]?secret)"
            r"\s*=\s*[\"'`]?([^\s\"'`;,]{6,})",
            re.IGNORECASE,
        ),
    )


class SaidPassword(RegexBasedDetector):
    """A password or passphrase as people write it down: `password: hunter2`, `the password is hunter2`."""

    secret_type = "Password"
    # What follows must look like one: no plain word, or "the password is required" would be refused. It shows that
    # in its first 64 characters: a search to its end would begin anew at each `password:` of a row of them.
    denylist = (
        re.compile(
            r"\b(?:password|passwd|passphrase|passcode|pwd|passwort|kennwort|mot de passe|contraseña|pin code)\b"
            r"(?: (?:for|to|of|für|de)(?: [^\s:=]{1,30}){1,4})?(?:\s*[:=]{1,2}\s*|\s+(?:is|ist|est|es|was|war)\s+:?\s*)"
            r"[\"'`“]?(?=[^\s\"'`”]{0,64}[0-9!$%&*+/=?@#^~])(?=[^\s\"'`”]{0,64}[^\s0-9\"'`”.,;:!?])([^\s\"'`”]{5,})",
            re.IGNORECASE,
        ),
        *AssignedPassword.denylist,
    )


class RandomRuns:
    """Runs of letters and digits that look drawn by lot, wherever they stand in a text."""

    secret_type = "High entropy string"

    def __init__(self) -> None:
        self._base64 = Base64HighEntropyString()
        self._hex = HexHighEntropyString()

    def analyze_string(self, text: str) -> Iterator[str]:
        """Each such run."""
        for found in _HEX_RUN.finditer(text):
            run, before = found[1], text[max(0, found.start() - _PUBLIC_HASH_MAX) : found.start()]
            if not _PUBLIC_HASH.search(before) and self._hex.calculate_shannon_entropy(run) > self._hex.entropy_limit:
                yield run
        for found in _RUN.finditer(_UUID.sub(" ", text)):
            run = found[0].rstrip("=")
            if _turns(run) >= TURNS and self._entropy(run) >= BASE64_ENTROPY and _mixed(run):
                yield run

    def _entropy(self, run: str) -> float:
        # The library's is over 64 characters a run; of a long text this one is the cheaper.
        counts = [run.count(character) / len(run) for character in set(run)]
        return -sum(share * math.log2(share) for share in counts)


def _mixed(run: str) -> bool:
    """Capitals, small letters and digits, two of them in a short run; what has less is mostly a name or a number."""
    digits = 1 if len(run) >= HEX_MIN else 2
    return any(map(str.isupper, run)) and any(map(str.islower, run)) and sum(map(str.isdigit, run)) >= digits


def _turns(run: str) -> float:
    kinds = ["d" if c.isdigit() else "u" if c.isupper() else "l" for c in run if c.isalnum()]
    return sum(a != b for a, b in pairwise(kinds)) / max(1, len(kinds) - 1)
