"""The same served deployment as REST's tests."""

from integration.rest.conftest import house, managed_house, shop

__all__ = ["house", "managed_house", "shop"]
