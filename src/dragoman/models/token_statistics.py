"""Figures of tokens that models report (`Seq2Seq.token_statistics`), summed up over many of them."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class TokenStatistic:
    """A figure of tokens, such as the steps that a model took for each: mean and maximum over the tokens."""

    mean: float
    maximum: float

    def to_json(self) -> dict[str, float | None]:
        """Plain values for json.dump; JSON has no NaN and no infinity: they become null."""
        return {name: value if math.isfinite(value) else None for name, value in asdict(self).items()}


def summarise(batches: Iterable[Mapping[str, Float[Tensor, " _"]]]) -> dict[str, TokenStatistic]:
    """Mean and maximum of each figure over the tokens of all batches; none for a figure without a token."""
    found: dict[str, list[Tensor]] = {}
    for batch in batches:
        for name, values in batch.items():
            if values.numel():
                # Read at the end, all at once: on a GPU each reading waits.
                some = [values.sum(dtype=torch.float64), values.max().double()]
                # [N] -> [3]: sum, maximum, count
                found.setdefault(name, []).append(torch.stack([*some, some[0].new_tensor(values.numel())]))
    figures = {}
    for name, batch_totals in found.items():
        # batches x [3] -> [3, batches]
        sums, maxima, counts = torch.stack(batch_totals, dim=1).cpu()
        figures[name] = TokenStatistic(mean=float(sums.sum() / counts.sum()), maximum=float(maxima.max()))
    return figures
