"""How good a model is on the validation set."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from dragoman.models.token_statistics import TokenStatistic
from dragoman.training.metrics import LOSS, METRICS


class Sample(NamedTuple):
    """One example to look at: what the model was given, what was expected, what it wrote."""

    given: str
    expected: str
    output: str


@dataclass(frozen=True, kw_only=True)
class Validation:
    """What a validation found.

    loss      nats per token, without smoothing
    scores    the other metrics that were measured, by their names in `metrics.METRICS`
    samples   outputs to look at
    figures   what the model reports of its own, by name; see `Seq2Seq.token_statistics`
    """

    loss: float
    scores: Mapping[str, float] = field(default_factory=dict)
    samples: tuple[Sample, ...] = ()
    figures: Mapping[str, TokenStatistic] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.scores.keys() <= METRICS.keys() - {LOSS.name}, f"add {set(self.scores)} to the table of metrics"

    def __getitem__(self, name: str) -> float:
        """Return the value of a metric.

        Raises:
            KeyError: when it has not been measured.
        """
        return self.values()[name]

    def values(self) -> dict[str, float]:
        """Return every metric by name, in the order of the table."""
        measured = {LOSS.name: self.loss, **self.scores}
        values = {}
        for name, metric in METRICS.items():
            if metric.from_loss is not None:
                values[name] = metric.from_loss(self.loss)
            elif name in measured:
                values[name] = measured[name]
        return values

    def sentence(self) -> str:
        """Return the scores, and what says the same as the loss, with their labels: "BLEU 20.5, perplexity 12.00"."""
        values = {METRICS[name]: value for name, value in self.values().items() if name != LOSS.name}
        # Python sorts stably: what is computed from the loss comes last.
        ordered = sorted(values, key=lambda metric: metric.from_loss is not None)
        return ", ".join(metric.text(values[metric]) for metric in ordered)

    def better_than(self, other: "Validation | None", by: str) -> bool:
        """Return whether this is an improvement by the metric `by`; the loss decides between equal values."""
        if other is None:
            return True
        if self[by] != other[by]:
            return METRICS[by].better(self[by], other[by])
        # BLEU of outputs shorter than four words is always 0.
        return LOSS.better(self.loss, other.loss)

    def figures_to_json(self) -> dict[str, object]:
        """Return {"figures": ...} for logs and metrics; {} when the model has none."""
        figures = {name: figure.to_json() for name, figure in self.figures.items()}
        return {"figures": figures} if figures else {}

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values, for a checkpoint."""
        figures = {name: asdict(figure) for name, figure in self.figures.items()}
        return {LOSS.name: self.loss, **self.scores, "samples": self.samples, "figures": figures}

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> "Validation":
        """Read what `to_json` wrote; earlier versions wrote no figures, and fewer metrics."""
        return cls(
            loss=state[LOSS.name],
            scores={name: value for name, value in state.items() if name in METRICS and name != LOSS.name},
            samples=tuple(Sample(*sample) for sample in state["samples"]),
            figures={name: TokenStatistic(**figure) for name, figure in state.get("figures", {}).items()},
        )
