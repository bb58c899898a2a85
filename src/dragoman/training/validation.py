"""The result of a validation."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from dragoman.models.token_statistics import TokenStatistic
from dragoman.training.metrics import LOSS, METRICS

# Key of the token statistics in JSON, and the key that earlier versions wrote.
_STATISTICS, _EARLIER_STATISTICS = "token_statistics", "figures"


class Sample(NamedTuple):
    """An example of the model's output.

    Attributes:
        source: input of the model.
        reference: expected output.
        output: output of the model.
    """

    source: str
    reference: str
    output: str


@dataclass(frozen=True, kw_only=True)
class Validation:
    """Result of a validation.

    Attributes:
        loss: nats per token, without label smoothing; of a GAN, the loss of the discriminator.
        metrics: the other measured metrics, by their names in `training.metrics.METRICS`.
        samples: examples of the model's output.
        likelihood: True if the loss is in nats, so that metrics such as the perplexity can be computed from it.
        token_statistics: statistics that the model reports about tokens, by name; see `Seq2Seq.token_statistics`.
    """

    loss: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    samples: tuple[Sample, ...] = ()
    token_statistics: Mapping[str, TokenStatistic] = field(default_factory=dict)
    likelihood: bool = True

    def __post_init__(self) -> None:
        assert self.metrics.keys() <= METRICS.keys() - {LOSS.name}, f"add {set(self.metrics)} to the table of metrics"

    def __getitem__(self, name: str) -> float:
        """Return the value of a metric.

        Raises:
            KeyError: if the metric was not measured.
        """
        return self.values()[name]

    def values(self) -> dict[str, float]:
        """Return all metrics by name, in the order of the table."""
        measured = {LOSS.name: self.loss, **self.metrics}
        values = {}
        for name, metric in METRICS.items():
            if metric.from_loss is not None:
                if self.likelihood:
                    values[name] = metric.from_loss(self.loss)
            elif name in measured:
                values[name] = measured[name]
        return values

    def sentence(self) -> str:
        """Return all metrics but the loss with their labels, such as "BLEU 20.5, perplexity 12.00"."""
        values = {METRICS[name]: value for name, value in self.values().items() if name != LOSS.name}
        # The sort is stable: only metrics that are computed from the loss move to the end.
        ordered = sorted(values, key=lambda metric: metric.from_loss is not None)
        return ", ".join(metric.text(values[metric]) for metric in ordered)

    def better_than(self, other: "Validation | None", metric: str) -> bool:
        """Return whether this validation is better than another one.

        Args:
            other: the other validation; None counts as worse.
            metric: name of the metric to compare. If its values are equal, the loss is compared.
        """
        if other is None:
            return True
        if self[metric] != other[metric]:
            return METRICS[metric].is_better(self[metric], other[metric])
        # Equal values are common: BLEU of outputs shorter than four words is always 0.
        return LOSS.is_better(self.loss, other.loss)

    def token_statistics_to_json(self) -> dict[str, object]:
        """Return {"token_statistics": ...} for logs and metrics.json; {} if there are none."""
        statistics = {name: statistic.to_json() for name, statistic in self.token_statistics.items()}
        return {_STATISTICS: statistics} if statistics else {}

    def to_json(self) -> dict[str, Any]:
        """Return the validation as JSON values, for a checkpoint."""
        statistics = {name: asdict(statistic) for name, statistic in self.token_statistics.items()}
        other = {} if self.likelihood else {"likelihood": False}
        return {LOSS.name: self.loss, **self.metrics, "samples": self.samples, _STATISTICS: statistics, **other}

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> "Validation":
        """Return the validation from values that `to_json` of this or an earlier version returned."""
        statistics = state.get(_STATISTICS, state.get(_EARLIER_STATISTICS, {}))
        return cls(
            loss=state[LOSS.name],
            metrics={name: value for name, value in state.items() if name in METRICS and name != LOSS.name},
            samples=tuple(Sample(*sample) for sample in state["samples"]),
            token_statistics={name: TokenStatistic(**values) for name, values in statistics.items()},
            likelihood=state.get("likelihood", True),
        )
