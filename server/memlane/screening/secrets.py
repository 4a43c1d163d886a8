"""Implements `usecases.ports.SecretScanner`."""

import re
from collections.abc import Iterator
from typing import Protocol

from detect_secrets.plugins.artifactory import ArtifactoryDetector
from detect_secrets.plugins.aws import AWSKeyDetector
from detect_secrets.plugins.azure_storage_key import AzureStorageKeyDetector
from detect_secrets.plugins.cloudant import CloudantDetector
from detect_secrets.plugins.discord import DiscordBotTokenDetector
from detect_secrets.plugins.github_token import GitHubTokenDetector
from detect_secrets.plugins.gitlab_token import GitLabTokenDetector
from detect_secrets.plugins.ibm_cloud_iam import IbmCloudIamDetector
from detect_secrets.plugins.ibm_cos_hmac import IbmCosHmacDetector
from detect_secrets.plugins.keyword import DENYLIST, KeywordDetector
from detect_secrets.plugins.mailchimp import MailchimpDetector
from detect_secrets.plugins.npm import NpmDetector
from detect_secrets.plugins.private_key import PrivateKeyDetector
from detect_secrets.plugins.pypi_token import PypiTokenDetector
from detect_secrets.plugins.sendgrid import SendGridDetector
from detect_secrets.plugins.slack import SlackDetector
from detect_secrets.plugins.softlayer import SoftlayerDetector
from detect_secrets.plugins.square_oauth import SquareOAuthDetector
from detect_secrets.plugins.stripe import StripeDetector
from detect_secrets.plugins.telegram_token import TelegramBotTokenDetector
from detect_secrets.plugins.twilio import TwilioKeyDetector

from memlane.screening.detectors import (
    AssignedPassword,
    LinearJwt,
    LinearOpenAI,
    MarkedAwsKey,
    MarkedGitHubToken,
    MarkedTokenDetector,
    MorePrivateKeys,
    PasswordInCall,
    RandomRuns,
    SaidPassword,
    VendorTokenDetector,
    WebhookUrl,
)


class _Detector(Protocol):
    secret_type: str

    def analyze_string(self, text: str, /) -> Iterator[str]: ...


class _OnlyWith:
    """A detector that is asked only where there is what everything that it finds holds."""

    def __init__(self, needed: re.Pattern[str], detector: _Detector) -> None:
        self.secret_type = detector.secret_type
        self._needed = needed
        self._detector = detector

    def analyze_string(self, text: str) -> Iterator[str]:
        """What the detector finds."""
        return iter(()) if self._needed.search(text) is None else self._detector.analyze_string(text)


# Its expression takes time in the square of a text of slashes.
_NPM = _OnlyWith(re.compile("_authToken"), NpmDetector())
# To look for the words is five times as quick as to look for what may stand around them.
_KEYWORD = _OnlyWith(re.compile("|".join(DENYLIST), re.IGNORECASE), KeywordDetector())


class DetectSecrets:
    """Each detector in turn, the telling ones first. Nothing is verified with anybody and nothing is kept."""

    def __init__(self) -> None:
        # Not among them: public IP addresses, which are no secrets.
        self._detectors: tuple[_Detector, ...] = (
            PrivateKeyDetector(),
            MorePrivateKeys(),
            PasswordInCall(),
            LinearJwt(),
            AWSKeyDetector(),
            GitHubTokenDetector(),
            GitLabTokenDetector(),
            LinearOpenAI(),
            SlackDetector(),
            WebhookUrl(),
            StripeDetector(),
            AzureStorageKeyDetector(),
            ArtifactoryDetector(),
            CloudantDetector(),
            DiscordBotTokenDetector(),
            IbmCloudIamDetector(),
            IbmCosHmacDetector(),
            MailchimpDetector(),
            _NPM,
            PypiTokenDetector(),
            SendGridDetector(),
            SoftlayerDetector(),
            SquareOAuthDetector(),
            TelegramBotTokenDetector(),
            TwilioKeyDetector(),
            VendorTokenDetector(),
            SaidPassword(),
            _KEYWORD,
            RandomRuns(),
        )
        # What an id cannot be by chance. Not the detectors that go by a random run, even behind a few characters of a
        # mark (Artifactory, Mailchimp, Twilio, and Telegram's `<number>:<run>`), nor those that go by a word and a
        # colon: `key:<run>` and `reset-password:user-42` are ids.
        self._id_detectors: tuple[_Detector, ...] = (
            PrivateKeyDetector(),
            MorePrivateKeys(),
            PasswordInCall(),
            LinearJwt(),
            MarkedAwsKey(),
            MarkedGitHubToken(),
            GitLabTokenDetector(),
            LinearOpenAI(),
            SlackDetector(),
            WebhookUrl(),
            StripeDetector(),
            AzureStorageKeyDetector(),
            DiscordBotTokenDetector(),
            _NPM,
            PypiTokenDetector(),
            SendGridDetector(),
            SquareOAuthDetector(),
            MarkedTokenDetector(),
            AssignedPassword(),
        )

    def find(self, text: str, *, is_id: bool = False) -> str | None:
        """See `SecretScanner.find`."""
        for detector in self._id_detectors if is_id else self._detectors:
            if next(iter(detector.analyze_string(text)), None) is not None:
                return detector.secret_type
        return None
