"""The Python of the docs runs as it stands there."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from integration.rest.house import Shop
from support.service import headers_of

ROOT = Path(__file__).parents[3]
PAGES = ("README.md", "docs/python-client.md", "docs/agents.md")


@pytest.mark.parametrize("page", PAGES)
async def test_the_python_of_a_page_runs(shop: Shop, page: str) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    key = await shop.key()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code,
        env={"PATH": os.environ["PATH"], "MEMLANE_API_URL": shop.service.url, "MEMLANE_API_KEY": key},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, said = await process.communicate()
    assert process.returncode == 0, said.decode()
    assert await shop.listed(headers_of(key, "ada")) == ["Prefers metric units."]
