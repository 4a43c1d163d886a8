"""Embedding spaces: only vectors of one space are ever compared."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EmbeddingSpace:
    """What makes two vectors comparable.

    Attributes:
        provider: Which adapter made the vectors: ``local``, ``tei`` or ``openai``.
        model: The model's name as the provider knows it.
        dimensions: Length of a vector, 1 to 4000 (the limit of an index over pgvector's ``halfvec``).
        fingerprint: What else decides the vectors (a model file's hash, a revision, the prompt profile);
            empty where the provider tells nothing more.
    """

    provider: str
    model: str
    dimensions: int
    fingerprint: str = ""
