"""What an import brings in behaves as if it had been saved here."""

from datetime import UTC, datetime

import uuid_utils

from integration.rest.house import Borrowed, Shop
from memlane.domain.caller import Caller, KeyRecord
from memlane.domain.grant import FULL_GRANT
from memlane.domain.lane import Lane, LaneMode, Trust
from memlane.domain.memory import Draft
from memlane.usecases.import_memories import ImportedMemory, import_memories
from memlane.usecases.ports import Embedder
from support.service import Service, running_service


async def test_a_restored_import_finds_its_live_twin(house: Service, embedder: Embedder) -> None:
    async with running_service(house.deployment, embedder=Borrowed(embedder)) as (service, process):
        shop = Shop(service)
        me = await shop.headers()
        project = await shop.deployment.project(shop.slug)
        (lane,) = await shop.rows("select id::text from lanes where project_id = $1")
        key = KeyRecord(
            id=None,
            short="operator",
            secret_sha256=b"",
            organization_id="",
            organization="acme",
            plan_code=None,
            project_id=project.id,
            project=project.slug,
            lane=Lane(lane["id"], "default", Trust.INTERNAL, LaneMode.READ_WRITE),
            grant=FULL_GRANT,
            expires_at=None,
            revoked_at=None,
        )
        retired_id = str(uuid_utils.uuid7())
        line = ImportedMemory(retired_id, "u1", Draft("Likes tea.", "topical"), datetime.now(UTC), retired=True)
        live = await shop.save(me, "likes tea")
        count = await import_memories(process.services, Caller(key, "", FULL_GRANT, "import"), [line])
        assert count.written == 1
        restored = (await shop.restore(me, retired_id)).json()
        assert (restored["id"], restored["absorbed"]) == (live["id"], True)
        assert await shop.listed(me) == ["likes tea"]
