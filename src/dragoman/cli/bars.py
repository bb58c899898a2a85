"""Progress bars on standard error."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bar(description: str, *, hidden: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on a terminal; yield the callback that takes what is done, and the total.

    The bar disappears when the work is complete.
    """
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=hidden or not console.is_terminal) as progress:
        task = progress.add_task(description, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total, visible=done < total)
