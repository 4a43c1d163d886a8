"""`memlane probe`: do these doors answer? For health checks of containers and for `helm test`."""

import os
import time

import click
import httpx

from memlane.config import DEFAULT_PORTS

ANSWER_SECONDS = 5.0
"""Longest wait for one answer: a little more than `/api/ready` takes at most."""
PAUSE_SECONDS = 1.0


@click.command()
@click.argument("urls", nargs=-1)
@click.option(
    "--patience", type=click.FloatRange(0, 3600), default=0.0, show_default=True, help="Seconds to go on asking."
)
def probe(urls: tuple[str, ...], patience: float) -> None:
    """Ask each URL for a 200, and print what it said.

    Without a URL: the process of this container, at MEMLANE_PORT or at any role's own port. Exits 0 when all answer
    (without a URL: when one does), else 1.
    """
    end = time.monotonic() + patience
    with httpx.Client(timeout=ANSWER_SECONDS, trust_env=False) as client:
        while True:
            asked = urls or _own_doors()
            said = {url: _ask(client, url) for url in asked}
            fine = [answer == "ok" for answer in said.values()]
            good = all(fine) if urls else any(fine)
            if good or time.monotonic() >= end:
                break
            time.sleep(PAUSE_SECONDS)
    for url, answer in said.items():
        if urls or answer == "ok" or not good:
            click.echo(f"{url}: {answer}")
    if not good:
        raise click.exceptions.Exit(1)


def _own_doors() -> tuple[str, ...]:
    port = os.environ.get("MEMLANE_PORT", "").strip()
    ports = (port,) if port else tuple(str(one) for one in DEFAULT_PORTS.values())
    return tuple(f"http://127.0.0.1:{one}/api/live" for one in ports)


def _ask(client: httpx.Client, url: str) -> str:
    try:
        answer = client.get(url)
    except (httpx.HTTPError, httpx.InvalidURL) as fault:
        return f"no answer ({type(fault).__name__})"
    return "ok" if answer.status_code == httpx.codes.OK else f"status {answer.status_code}: {answer.text[:500]}"
