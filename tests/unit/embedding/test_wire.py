import httpx
import pytest

from memlane.domain.errors import EmbedderUnavailable, Misconfigured
from memlane.embedding import wire
from memlane.embedding.http_transport import Transport
from memlane.embedding.outcomes import WrongModel


@pytest.mark.parametrize(
    ("url", "info", "tei", "openai"),
    [
        ("http://tei:80", "http://tei/info", "http://tei/embed", "http://tei/v1/embeddings"),
        ("https://h/v1/", "https://h/info", "https://h/embed", "https://h/v1/embeddings"),
        ("https://h/v1/embeddings", "https://h/info", "https://h/embed", "https://h/v1/embeddings"),
        ("https://h/a/v1", "https://h/a/info", "https://h/a/embed", "https://h/a/v1/embeddings"),
        ("https://h/beta/embeddings", "https://h/beta/info", "https://h/beta/embed", "https://h/beta/embeddings"),
        ("https://h/v1?tier=2", "https://h/info?tier=2", "https://h/embed?tier=2", "https://h/v1/embeddings?tier=2"),
        ("http://[::1]:8080/embed", "http://[::1]:8080/info", "http://[::1]:8080/embed", "http://[::1]:8080/v1/embeddings"),
    ],
)  # fmt: skip
def test_the_routes_follow_from_any_spelling_of_the_url(url: str, info: str, tei: str, openai: str) -> None:
    routes = wire.Routes.of(url)
    assert [str(routes.info), str(routes.tei), str(routes.openai)] == [info, tei, openai]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "tei:80",
        "ftp://tei/",
        "file:///etc/passwd",
        "http://",
        "http://a:b@tei/",
        "http://[",
        "http://tei:99999",
        "//tei",
    ],
)
def test_a_url_that_is_no_plain_http_url_is_refused_without_being_quoted(url: str) -> None:
    with pytest.raises(Misconfigured) as raised:
        Transport(wire.Routes.of(url).openai)
    assert "a:b" not in raised.value.message


@pytest.mark.parametrize("key", ["two words", "new\nline", "k\u00e9y"])
def test_a_key_that_a_header_cannot_carry_is_refused_without_being_quoted(key: str) -> None:
    with pytest.raises(Misconfigured) as raised:
        Transport(httpx.URL("http://tei"), api_key=key)
    assert key not in raised.value.message


def test_vectors_are_brought_to_length_one() -> None:
    assert wire.read_vectors([[3, 4.0]], 1, 2) == [[0.6, 0.8]]


@pytest.mark.parametrize(
    "rows",
    [
        None,
        {},
        [],
        [[1.0, 0.0], [1.0, 0.0]],
        [None],
        [[]],
        [["1", "0"]],
        [[True, False]],
        [[None, 1.0]],
        [[[1.0], [0.0]]],
        [[0.0, 0.0]],
        [[float("nan"), 1.0]],
        [[float("inf"), 1.0]],
        [[1e308, 1e308]],
        [[10**400, 1]],
    ],
)
def test_what_is_not_one_finite_vector_is_unavailable(rows: object) -> None:
    with pytest.raises(EmbedderUnavailable):
        wire.read_vectors(rows, 1, 2)


def test_another_dimension_is_told_apart() -> None:
    with pytest.raises(WrongModel, match="3 numbers; 2 are"):
        wire.read_vectors([[1.0, 0.0, 0.0]], 1, 2)


def test_openai_answers_are_sorted_by_index() -> None:
    data = [{"index": 1, "embedding": "b"}, {"index": 0, "embedding": "a"}]
    assert wire.read_openai_data({"data": data}) == ["a", "b"]


@pytest.mark.parametrize(
    "answer",
    [
        [],
        None,
        {},
        {"data": {}},
        {"data": [1]},
        {"data": [{"index": 1, "embedding": []}]},
        {"data": [{"index": 0}, {"index": 0}]},
        {"data": [{"index": "x"}]},
        {"data": [{"index": None}]},
    ],
)
def test_an_openai_answer_of_another_shape_is_unavailable(answer: object) -> None:
    with pytest.raises(EmbedderUnavailable):
        wire.read_openai_data(answer)


def test_only_a_description_like_teis_is_taken_for_tei() -> None:
    assert wire.read_tei_info({"model_id": "a/b", "max_client_batch_size": 8}) == wire.TeiInfo("a/b", 8)
    assert wire.read_tei_info({"model_id": "a/b", "max_batch_tokens": 8}) == wire.TeiInfo("a/b", None)
    others: list[object] = [{"model_id": "a/b"}, {"max_client_batch_size": 8}, [], None, "TEI"]
    for other in others:
        assert wire.read_tei_info(other) is None


@pytest.mark.parametrize(
    ("served", "configured", "same"),
    [
        ("BAAI/bge-m3", "bge-m3", True),
        ("/data/model", "BAAI/bge-m3", True),
        ("BAAI/bge-m3", "BAAI/bge-small", False),
    ],
)
def test_tei_may_serve_a_model_from_a_folder_but_not_another_model(served: str, configured: str, *, same: bool) -> None:
    assert wire.TeiInfo(served, None).serves(configured) is same
