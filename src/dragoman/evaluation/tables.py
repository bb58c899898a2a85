"""Plain-text tables."""

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]], names: int) -> str:
    """Return a table as text.

    Args:
        rows: rows with equal numbers of cells.
        names: number of leading columns to align to the left; the others are aligned to the right.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < names else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
