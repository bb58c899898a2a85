"""What `dragoman compare` compares: variants of a run, each as settings of a run file.

The first variant of a study is its reference: every choice that a study does not vary is made for it, and the
others take it over.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dragoman.errors import SettingsError


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One of the models that are compared.

    name           as in the table
    architecture   of the model
    model          settings of the [model] table
    training       settings of the [training] table
    rate           its peak learning rate as a multiple of the reference's: what suits one does not suit all
    """

    name: str
    architecture: str = "transformer"
    model: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    rate: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Study:
    """Variants that differ in one thing.

    question   what they differ in
    matched    widths are fitted so that all have about the reference's number of parameters
    """

    question: str
    variants: tuple[Variant, ...]
    matched: bool = True


def _positions(kind: str) -> Variant:
    return Variant(name=kind, model={"positions": kind})


def _norm(placement: str, norm: str) -> Variant:
    return Variant(name=f"{placement}-norm, {norm}", model={"norm_placement": placement, "norm": norm})


def _depth(layers: int) -> Variant:
    return Variant(name=f"{layers} + {layers} layers", model={"encoder_layers": layers, "decoder_layers": layers})


def _recurrent(name: str, **model: Any) -> Variant:
    return Variant(name=name, architecture="recurrent", model=model, rate=4.0)


# By the name that `dragoman compare --study` knows. Rates: the best of 0.001, 0.002 and 0.004 in short runs,
# benchmarks/RESULTS.md.
STUDIES: dict[str, Study] = {
    "architecture": Study(
        question="What does self-attention gain over what came before, and after?",
        variants=(
            Variant(name="Transformer"),
            Variant(name="Universal Transformer", architecture="universal"),
            Variant(name="Universal Transformer, adaptive", architecture="universal", model={"halting": "adaptive"}),
            Variant(name="convolutional", architecture="convolutional", rate=4.0),
            _recurrent("LSTM, attention, input feeding"),
            _recurrent("LSTM, attention", input_feeding=False),
            _recurrent("LSTM, no attention", attention="none", input_feeding=False),
        ),
    ),
    "positions": Study(
        question="How should a model know the order of the words? (table 3, row E)",
        variants=tuple(map(_positions, ("sinusoidal", "learned", "one-hot", "rotary", "relative", "none"))),
        matched=False,
    ),
    "norm": Study(
        question="Which normalisation, and where?",
        variants=(_norm("pre", "layer"), _norm("post", "layer"), _norm("pre", "rms"), _norm("pre", "batch")),
        matched=False,
    ),
    "heads": Study(
        question="How many heads, and how wide are queries and keys? (table 3, rows A and B)",
        variants=(
            Variant(name="4 heads", model={"heads": 4}),
            Variant(name="1 head", model={"heads": 1}),
            Variant(name="2 heads", model={"heads": 2}),
            Variant(name="8 heads", model={"heads": 8}),
            Variant(name="16 heads", model={"heads": 16}),
            Variant(name="4 heads, d_k 16", model={"heads": 4, "d_k": 16}),
            Variant(name="4 heads, d_k 32", model={"heads": 4, "d_k": 32}),
        ),
        matched=False,
    ),
    "depth": Study(
        question="Deep or wide, at the same number of parameters? (table 3, rows C)",
        variants=tuple(map(_depth, (3, 1, 2, 6))),
    ),
    "smoothing": Study(
        question="How much label smoothing and dropout? (table 3, rows D)",
        variants=(
            Variant(name="smoothing 0.1", training={"label_smoothing": 0.1}),
            Variant(name="smoothing 0", training={"label_smoothing": 0.0}),
            Variant(name="smoothing 0.2", training={"label_smoothing": 0.2}),
            Variant(name="smoothing 0.1, dropout 0", training={"label_smoothing": 0.1}, model={"dropout": 0.0}),
            Variant(name="smoothing 0.1, dropout 0.2", training={"label_smoothing": 0.1}, model={"dropout": 0.2}),
        ),
        matched=False,
    ),
}


def study_named(name: str) -> Study:
    """Return the study of this name.

    Raises:
        SettingsError: for an unknown name.
    """
    if name not in STUDIES:
        raise SettingsError(f"unknown study {name!r}: choose one of {', '.join(STUDIES)}")
    return STUDIES[name]
