import pytest

from memlane.embedding.profiles import PLAIN, profile_for


@pytest.mark.parametrize(
    ("model", "family", "query", "document"),
    [
        ("Qwen/Qwen3-Embedding-0.6B", "qwen3", "\nQuery:tea", "tea"),
        ("qwen3-embedding:8b", "qwen3", "\nQuery:tea", "tea"),
        ("intfloat/multilingual-e5-large-instruct", "instruct", "\nQuery: tea", "tea"),
        ("intfloat/e5-mistral-7b-instruct", "instruct", "\nQuery: tea", "tea"),
        ("intfloat/e5-small-v2", "e5", "query: tea", "passage: tea"),
        ("intfloat/multilingual-e5-base", "e5", "query: tea", "passage: tea"),
        ("BAAI/bge-small-en-v1.5", "bge", "searching relevant passages: tea", "tea"),
        ("BAAI/bge-large-zh-v1.5", "bge-zh", "tea", "tea"),
        ("BAAI/bge-m3", "bge-m3", "tea", "tea"),
        ("nomic-ai/nomic-embed-text-v1.5", "nomic", "search_query: tea", "search_document: tea"),
        ("text-embedding-3-small", "openai-3", "tea", "tea"),
        ("sentence-transformers/all-MiniLM-L6-v2", "minilm", "tea", "tea"),
        ("acme/some-model", "plain", "tea", "tea"),
    ],
)
def test_a_model_gets_the_input_that_its_card_asks_for(model: str, family: str, query: str, document: str) -> None:
    profile = profile_for(model)
    assert profile.name == family
    assert profile.query("tea").endswith(query)
    assert profile.document("tea") == document
    assert 0 < profile.close_similarity < 1


def test_qwen3_puts_its_instruction_before_the_query_only() -> None:
    assert profile_for("Qwen/Qwen3-Embedding-4B").query("tea").startswith("Instruct: ")


def test_the_fingerprint_names_the_family_and_its_version() -> None:
    assert PLAIN.fingerprint == "plain/1"
