"""With the form alone the order of saves does not matter."""

import json
import random
from pathlib import Path

import pytest

from integration.rest.house import Shop

PAIRS = Path(__file__).parents[2] / "data" / "absorb_pairs_split.jsonl"


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_set_saved_in_any_order_ends_with_the_same_live_statements(shop: Shop, seed: int) -> None:
    pairs = [json.loads(line) for line in PAIRS.read_text("utf-8").splitlines()][seed::6]
    texts = [pair[side] for pair in pairs for side in "ab"]
    key = await shop.headers()
    live: list[int] = []
    for user in range(3):
        me = {**key, "X-Cpki-User-Id": f"order-{user}"}
        random.Random(seed * 10 + user).shuffle(texts)  # noqa: S311 - an order, no secret
        for start in range(0, len(texts), 50):
            drafts = [{"content": text, "kind": "topical"} for text in texts[start : start + 50]]
            answer = await shop.post(me, {"memories": drafts}, "/api/memories/batch")
            assert all("id" in one for one in answer.json()["outcomes"])
        live.append(len(await shop.listed(me)))
    assert len(set(live)) == 1
    assert live[0] < len(texts), "some of them are duplicates"
