"""Summary of the statistics that models report for each token (`Seq2Seq.token_statistics`)."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class TokenStatistic:
    """Mean and maximum over tokens of a statistic, such as the number of steps that a model used for each token."""

    mean: float
    maximum: float

    def to_json(self) -> dict[str, float | None]:
        """Return plain values for json.dump; NaN and infinity, which JSON does not have, become null."""
        return {name: value if math.isfinite(value) else None for name, value in asdict(self).items()}


def summarise(batches: Iterable[Mapping[str, Float[Tensor, " _"]]]) -> dict[str, TokenStatistic]:
    """Return the mean and maximum of each statistic over the tokens of all batches.

    Args:
        batches: results of `Seq2Seq.token_statistics`. A statistic without any token is left out.

    Example:
        >>> import torch
        >>> summarise([{"encoder steps": torch.tensor([2.0, 4.0])}])
        {'encoder steps': TokenStatistic(mean=3.0, maximum=4.0)}
    """
    totals: dict[str, list[Tensor]] = {}
    for batch in batches:
        for name, values in batch.items():
            if values.numel():
                # Copied to the CPU at the end, in one transfer: on a GPU, each copy waits for the computation.
                total, maximum = values.sum(dtype=torch.float64), values.max().double()
                # [N] -> [3]: sum, maximum, count
                totals.setdefault(name, []).append(torch.stack([total, maximum, total.new_tensor(values.numel())]))
    statistics = {}
    for name, batch_totals in totals.items():
        # batches x [3] -> [3, batches]
        sums, maxima, counts = torch.stack(batch_totals, dim=1).cpu()
        statistics[name] = TokenStatistic(mean=float(sums.sum() / counts.sum()), maximum=float(maxima.max()))
    return statistics
