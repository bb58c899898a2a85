"""Types of what tests in a browser are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

# Opens the page of an attention map; see the fixture `open_page`.
Opener = Callable[..., "Page"]
