"""Types of fixtures of the browser tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

# Type of the fixture `open_page`, which opens the page of an attention map.
Opener = Callable[..., "Page"]
