"""`memlane mcp`."""

import asyncio
import os

import click

from memlane.config import ConfigurationFaults, Fault
from memlane.observability.logs import set_up_logs
from memlane.rest.credentials import USER_HEADER


@click.command("mcp")
def mcp_command() -> None:
    """Serve the memory tools over stdio, for agents that start their tools as programs.

    Asks the service at MEMLANE_API_URL with the key MEMLANE_API_KEY on behalf of the user MEMLANE_USER_ID; a key
    whose grant reaches no user's memories needs none. Over HTTP the same tools are at <MEMLANE_API_URL>/mcp.
    """
    # Here and not above: the SDK takes half a second to import, which every other command would pay.
    from memlane.mcp_tools.stdio import Bridge, serve_stdio  # noqa: PLC0415

    set_up_logs("WARNING")
    values = {name: os.environ.get(name, "").strip() for name in ("MEMLANE_API_URL", "MEMLANE_API_KEY")}
    faults = [Fault(name, "is required for memlane mcp") for name, value in values.items() if not value]
    if values["MEMLANE_API_URL"] and not values["MEMLANE_API_URL"].startswith(("http://", "https://")):
        faults.append(Fault("MEMLANE_API_URL", "must begin with http:// or https://"))
    if faults:
        raise ConfigurationFaults(faults)
    headers = {"Authorization": f"Bearer {values['MEMLANE_API_KEY']}"}
    user = os.environ.get("MEMLANE_USER_ID", "").strip()
    if user:
        headers[USER_HEADER] = user
    asyncio.run(serve_stdio(Bridge(values["MEMLANE_API_URL"], headers)))
