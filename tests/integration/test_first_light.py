from support.service import Service, headers_of


async def test_a_saved_memory_is_recalled_in_other_words(service: Service) -> None:
    me = headers_of(await service.deployment.key())
    saved = await service.save(me, "Prefers concise status updates.", "operational")
    recalled = await service.recall(me, "how does this user like updates")
    assert [one["id"] for one in recalled["memories"]] == [saved["id"]]
    assert 0 < recalled["memories"][0]["score"] <= 1
