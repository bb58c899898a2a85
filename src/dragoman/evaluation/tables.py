"""Tables in plain text."""

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]], names: int) -> str:
    """Rows of as many cells each, as text: the first `names` columns to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place < names else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
