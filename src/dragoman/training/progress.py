"""Where training stands, and how good the model is there."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from dragoman.data.batching import Cursor
from dragoman.models.figures import Figure


@dataclass(frozen=True, kw_only=True)
class Validation:
    """How good a model is on the validation set.

    loss      nats per target token, without smoothing; perplexity is e^loss
    bleu, chrf   0 to 100
    exact_match  per cent of the outputs that equal a reference of their source
    samples   (source, reference, translation) to look at
    figures   what the model reports of its own, by name; see `Seq2Seq.figures`
    """

    loss: float
    bleu: float
    chrf: float
    exact_match: float
    samples: tuple[tuple[str, str, str], ...] = ()
    figures: Mapping[str, Figure] = field(default_factory=dict)

    @property
    def perplexity(self) -> float:
        """e^loss."""
        return math.exp(min(self.loss, 700))

    def figures_to_json(self) -> dict[str, object]:
        """{"figures": ...} for logs and metrics; {} when the model has none."""
        figures = {name: figure.to_json() for name, figure in self.figures.items()}
        return {"figures": figures} if figures else {}

    def better_than(self, other: "Validation | None", by: Literal["bleu", "exact_match", "loss"]) -> bool:
        """Whether this is an improvement."""
        if other is None:
            return True
        if by == "bleu" and self.bleu != other.bleu:
            return self.bleu > other.bleu
        if by == "exact_match" and self.exact_match != other.exact_match:
            return self.exact_match > other.exact_match
        # Also between equal scores: BLEU of outputs shorter than four words is always 0.
        return self.loss < other.loss


@dataclass
class Position:
    """Where training stands; all of it is in a checkpoint."""

    step: int = 0
    cursor: Cursor = Cursor()  # noqa: RUF009 - frozen
    seconds: float = 0.0
    validations: int = 0
    since_best: int = 0
    best: Validation | None = None
    best_step: int = 0
    # The weights at these steps are kept, to be averaged at the end.
    validated_steps: tuple[int, ...] = ()
    # Since the last line of the log.
    loss_sum: float = 0.0
    tokens: int = 0
    # Updates that were not applied, as loss or gradient were not finite; and returns to a checkpoint for that.
    skipped: int = 0
    bad_in_a_row: int = 0
    rollbacks: int = 0
    # The average of the last weights has been tried: nothing is left to do.
    finished: bool = False

    def to_json(self) -> dict[str, Any]:
        """Turn into JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, state: dict[str, Any]) -> "Position":
        """Read what `to_json` wrote."""
        best = state["best"] and _read_validation(state["best"])
        return cls(
            **{
                **state,
                "cursor": Cursor(**state["cursor"]),
                "best": best,
                "validated_steps": tuple(state["validated_steps"]),
            }
        )


def _read_validation(state: dict[str, Any]) -> Validation:
    samples = tuple(tuple(sample) for sample in state["samples"])
    # Earlier versions wrote no figures and no exact match, by which none of their runs chooses.
    figures = {name: Figure(**figure) for name, figure in state.get("figures", {}).items()}
    return Validation(**{"exact_match": 0.0, **state, "samples": samples, "figures": figures})


@dataclass(frozen=True)
class Outcome:
    """What training came to: updates made, the best validation and its step, seconds spent.

    skipped     updates that were not applied, as loss or gradient were not finite
    rollbacks   returns to a checkpoint, each of which halved the learning rate
    """

    steps: int
    best: Validation
    best_step: int
    seconds: float
    stopped_early: bool
    skipped: int = 0
    rollbacks: int = 0
