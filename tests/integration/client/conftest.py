"""The same served deployment as REST's tests."""

from integration.rest.conftest import house, shop

__all__ = ["house", "shop"]
