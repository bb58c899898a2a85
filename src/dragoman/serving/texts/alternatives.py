"""Alternatives of a text from the alternatives of its sentences."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence


def best_combinations(
    costs: Sequence[Sequence[float]], text_of: Callable[[dict[int, int]], str], number: int
) -> list[str]:
    """Return the best text and at most `number` others, best first, all different.

    The cost of a text is the sum over its sentences. The combinations are made in the order of their costs, each from
    one that is cheaper: the rank of the last changed sentence is raised, or a later sentence is changed.

    Args:
        costs: for each sentence, the cost of each of its outputs: 0 for the first, and not decreasing.
        text_of: returns the text for the sentences (index to rank) that do not have their best output.
        number: number of alternatives.
    """
    texts = [text_of({})]
    if not number:
        return texts
    distinct = set(texts)
    heap: list[tuple[float, tuple[tuple[int, int], ...]]] = [(0.0, ())]
    while heap and len(texts) <= number:
        cost, changes = heapq.heappop(heap)
        text = text_of(dict(changes))
        if text not in distinct:
            distinct.add(text)
            texts.append(text)
        last, rank = changes[-1] if changes else (-1, 0)
        if changes and rank + 1 < len(costs[last]):
            step = costs[last][rank + 1] - costs[last][rank]
            heapq.heappush(heap, (cost + step, (*changes[:-1], (last, rank + 1))))
        for index in range(last + 1, len(costs)):
            if len(costs[index]) > 1:
                heapq.heappush(heap, (cost + costs[index][1], (*changes, (index, 1))))
    return texts
