"""Model profiles: what a model wants before a query and before a document.

A profile is found by the model's name, as its publisher spells it, with or without the organization. A model
that is not listed gets its texts as they are. Prefixes are taken from the models' cards.
"""

import re
from dataclasses import dataclass

_MEMORY_TASK = "Given a question or a topic, retrieve the stored memories about the user or the project that answer it"
_PASSAGE_INSTRUCTION = "Represent this sentence for searching relevant passages: "


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """How one family of models is fed.

    Attributes:
        name: The family, for the fingerprint.
        query_prefix: Goes before a search query.
        document_prefix: Goes before a text to be stored.
        close_similarity: The cosine, 0 to 1, from which two documents count as close. Families spread their
            cosines differently. Only the offline model's was measured; the others are set by what their
            cards say about the range, and decide only what an answer mentions as similar.
        version: Raised when a prefix changes, because it changes vectors.
    """

    name: str
    query_prefix: str = ""
    document_prefix: str = ""
    close_similarity: float = 0.8
    version: int = 1

    @property
    def fingerprint(self) -> str:
        """What goes into the fingerprint of the embedding space."""
        return f"{self.name}/{self.version}"

    def query(self, text: str) -> str:
        """The input for a search query."""
        return self.query_prefix + text

    def document(self, text: str) -> str:
        """The input for a text to be stored."""
        return self.document_prefix + text


PLAIN = ModelProfile("plain")

# Looked through in order; the first pattern found in the lower-cased name wins.
_PROFILES: tuple[tuple[str, ModelProfile], ...] = (
    # No space after "Query:", as the card of Qwen3-Embedding writes it.
    (r"qwen3-embedding", ModelProfile("qwen3", query_prefix=f"Instruct: {_MEMORY_TASK}\nQuery:")),
    # The instruction-tuned e5 and gte models write a space there, and nothing before documents.
    (
        r"e5-.*instruct|gte-qwen2.*instruct",
        ModelProfile("instruct", query_prefix=f"Instruct: {_MEMORY_TASK}\nQuery: ", close_similarity=0.85),
    ),
    # The card: cosines lie around .7 to 1, because of a low temperature in training.
    (
        r"(^|[^a-z0-9])e5-",
        ModelProfile("e5", query_prefix="query: ", document_prefix="passage: ", close_similarity=0.92),
    ),
    # bge-m3 and the multilingual ones take no instruction; v1.5 cosines lie in about .6 to 1.
    (r"bge-m3|bge-multilingual", ModelProfile("bge-m3", close_similarity=0.8)),
    (
        r"bge-.*-zh",
        ModelProfile(
            "bge-zh",
            query_prefix="\u4e3a\u8fd9\u4e2a\u53e5\u5b50\u751f\u6210\u8868\u793a\u4ee5\u7528\u4e8e\u68c0\u7d22\u76f8\u5173\u6587\u7ae0\uff1a",
            close_similarity=0.85,
        ),
    ),
    (r"bge-", ModelProfile("bge", query_prefix=_PASSAGE_INSTRUCTION, close_similarity=0.85)),
    (
        r"nomic-embed-text|modernbert-embed",
        ModelProfile("nomic", query_prefix="search_query: ", document_prefix="search_document: "),
    ),
    (r"mxbai-embed-large", ModelProfile("mxbai", query_prefix=_PASSAGE_INSTRUCTION)),
    # Text-embedding-3 spreads wide: paraphrases are often found at .6 to .8.
    (r"text-embedding-3", ModelProfile("openai-3", close_similarity=0.7)),
    # The same model as the offline one, which was measured (see local.py).
    (r"all-minilm-l6", ModelProfile("minilm", close_similarity=0.75)),
)


def profile_for(model: str) -> ModelProfile:
    """The profile of the model of that name; `PLAIN` when none is known."""
    name = model.lower()
    return next((profile for pattern, profile in _PROFILES if re.search(pattern, name)), PLAIN)
