"""`memlane embeddings`: status, activate, reembed."""

from integration.cli.shell import borrowed, memlane
from memlane.usecases.ports import Embedder
from support.service import Deployment, headers_of, running_service

FACTS = ("Likes green tea.", "Keeps bees behind the chapel.", "The staging server is heron.", "Ama rides horses.")


async def test_the_commands_list_activate_and_reembed(lone_deployment: Deployment, embedder: Embedder) -> None:
    async with running_service(lone_deployment, embedder=borrowed(embedder)) as (service, _):
        me = headers_of(await service.deployment.key())
        for fact in FACTS:
            await service.save(me, fact)
        await service.deployment.execute(
            "with old as (insert into embedding_spaces (provider, model, dimensions) values ('openai', 'old', 384) "
            "returning id) update memories set space_id = old.id from old"
        )
        # A purged row has no vector to move, and stays as it is.
        erased = await service.save(me, "Was erased.")
        await service.deployment.execute(
            "update memories set content = '', terms = '{}', absorb_key = null, embedding = null, wording_salt = null, "
            "retired_at = now(), purged_at = now(), "
            "space_id = (select min(space_id) from memories where id <> $1::uuid) where id = $1::uuid",
            erased["id"],
        )
        environment = service.deployment.environment()
        early = await memlane("embeddings", "reembed", env=environment)
        assert early.code == 78
        assert "embeddings activate" in early.said
        activated = await memlane("embeddings", "activate", "--index", env=environment)
        assert activated.code == 0, activated.said
        assert "is active" in activated.out
        assert "index for large project channels is built" in activated.out
        moved = await memlane("embeddings", "reembed", env=environment)
        assert moved.code == 0, moved.said
        assert "4 rows were moved" in moved.out
        assert "0 are left" in moved.out
        shown = await memlane("embeddings", "status", env=environment)
        assert "all-MiniLM-L6-v2" in shown.out
        assert "yes" in shown.out
        assert (await service.recall(me, "what does she drink"))["memories"][0]["content"] == FACTS[0]
