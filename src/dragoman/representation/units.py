"""What vectors represent, and how those of several tokens become one. Nothing here needs torch."""

from typing import Literal

Unit = Literal["tokens", "words", "texts"]
Pool = Literal["mean", "first"]
DEFAULT_BATCH_TOKENS = 4096
