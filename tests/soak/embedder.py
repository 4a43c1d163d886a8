"""Embeds without a model: what a text means is of no account here. `python -m soak.embedder <port>`."""

import hashlib
import sys

import numpy as np
import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

DIMENSIONS = 64
MODEL = "soak"


async def embeddings(request: Request) -> Response:
    """The same text has the same vector."""
    try:
        body = orjson.loads(await request.body())
    except ClientDisconnect:
        # An api that was killed in the middle of its request.
        return Response(status_code=499)
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    data = [{"object": "embedding", "index": at, "embedding": vector(text)} for at, text in enumerate(texts)]
    answer = {"object": "list", "model": MODEL, "data": data}
    return Response(orjson.dumps(answer), media_type="application/json")


def vector(text: str) -> list[float]:
    """A unit vector from a text's hash."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
    numbers = np.random.default_rng(seed).standard_normal(DIMENSIONS)
    return list(map(float, numbers / np.linalg.norm(numbers)))


if __name__ == "__main__":
    app = Starlette(routes=[Route("/v1/embeddings", embeddings, methods=["POST"])])
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
