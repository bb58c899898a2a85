"""The studies of `dragoman compare`: named sets of variants, each given as settings of a run file.

Each study belongs to a task. Its first variant is its reference: settings that a study does not vary are chosen for the
reference and used for all variants.

Learning rates. The reference of each study of translation has the peak rate 0.001 unless the user gives another one;
`Variant.rate` is a multiple of it. Rates were measured for three models only, each trained for three minutes on one
corpus (the table "Learning rates of the architectures" in benchmarks/RESULTS.md):

- Transformer with pre-norm: 0.001 and 0.002, of which 0.001 was better.
- LSTM with attention and input feeding: 0.001, 0.002 and 0.004, of which 0.004 was best.
- Convolutional model: 0.001, 0.002 and 0.004, of which 0.004 was best.

The other rates are defaults that were not tuned. The other LSTM variants have the rate of the measured LSTM, and the
Universal Transformers and the decoder-only model that of the Transformer. In the studies of one architecture, all
variants have the rate of the pre-norm Transformer.

The reference of the language models has the peak rate 0.002. For the Transformer (loss 4.09, 3.97, 3.95) and the LSTM
(4.48, 4.17, 3.94) of the preset nano, the rates 0.001, 0.002 and 0.004 were measured after 200 updates on
tinyshakespeare. The Transformer has 0.002, almost as good as 0.004 there, since longer trainings usually need lower
rates; the LSTM has 0.004, and all others the rate of the Transformer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dragoman.errors import SettingsError


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A model of a study.

    Attributes:
        name: Name in the tables and figures.
        architecture: Architecture of the model.
        model: Settings of the [model] table.
        training: Settings of the [training] table.
        rate: Peak learning rate as a multiple of the reference's. The module's documentation states which rates were
            measured.
    """

    name: str
    architecture: str = "transformer"
    model: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    rate: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Study:
    """A set of variants that differ in one respect.

    Attributes:
        question: Question that the study is meant to answer; the title of its report.
        variants: The variants, the reference first.
        task: Task of the models, as in `dragoman train --task`.
        matched: If true, the widths are fitted so that all variants have about as many parameters as the reference.
    """

    question: str
    variants: tuple[Variant, ...]
    task: str = "translation"
    matched: bool = True


def _positions(kind: str) -> Variant:
    return Variant(name=kind, model={"positions": kind})


def _norm(placement: str, norm: str) -> Variant:
    return Variant(name=f"{placement}-norm, {norm}", model={"norm_placement": placement, "norm": norm})


def _depth(layers: int) -> Variant:
    return Variant(name=f"{layers} + {layers} layers", model={"encoder_layers": layers, "decoder_layers": layers})


def _language(name: str, architecture: str = "language", rate: float = 1.0, **model: Any) -> Variant:
    return Variant(name=name, architecture=architecture, model=model, rate=rate)


def _recurrent(name: str, **model: Any) -> Variant:
    # The rate was measured with attention and input feeding only.
    return Variant(name=name, architecture="recurrent", model=model, rate=4.0)


# By the value of `dragoman compare --study`.
STUDIES: dict[str, Study] = {
    "architecture": Study(
        question="Which architecture translates best under the same budget?",
        variants=(
            Variant(name="Transformer"),
            Variant(name="Universal Transformer", architecture="universal"),
            Variant(name="Universal Transformer, adaptive", architecture="universal", model={"halting": "adaptive"}),
            Variant(name="convolutional", architecture="convolutional", rate=4.0),  # measured
            Variant(name="decoder-only", architecture="decoder-only"),
            _recurrent("LSTM, attention, input feeding"),
            _recurrent("LSTM, attention", input_feeding=False),
            _recurrent("LSTM, no attention", attention="none", input_feeding=False),
        ),
    ),
    "positions": Study(
        question="How should positions be represented? (table 3, row E)",
        variants=tuple(map(_positions, ("sinusoidal", "learned", "one-hot", "rotary", "relative", "none"))),
        matched=False,
    ),
    "norm": Study(
        question="Which normalisation, before or after the sub-layers?",
        variants=(_norm("pre", "layer"), _norm("post", "layer"), _norm("pre", "rms"), _norm("pre", "batch")),
        matched=False,
    ),
    "heads": Study(
        question="How many heads, and how wide should queries and keys be? (table 3, rows A and B)",
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
        question="How many layers, at the same number of parameters? (table 3, rows C)",
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
    "language-models": Study(
        question="Which language model predicts text best under the same budget?",
        task="language",
        variants=(
            _language("Transformer, rotary", positions="rotary"),
            _language("Transformer, sinusoidal", positions="sinusoidal"),
            _language("Transformer, no positions", positions="none"),
            _language("Transformer-XL", "transformer-xl"),
            _language("LSTM", "recurrent-language", rate=2.0),
        ),
    ),
}


def tasks_with_studies() -> list[str]:
    """Return the tasks that have studies."""
    return list(dict.fromkeys(study.task for study in STUDIES.values()))


def study_names(task: str) -> list[str]:
    """Return the names of the studies of a task, the default first.

    Raises:
        SettingsError: if the task has no studies.
    """
    names = [name for name, study in STUDIES.items() if study.task == task]
    if not names:
        raise SettingsError(f"there are no studies of task {task!r}: choose one of {', '.join(tasks_with_studies())}")
    return names


def study_named(name: str, task: str) -> Study:
    """Return the study of a task with the given name.

    Raises:
        SettingsError: if there is no such study of this task.
    """
    names = study_names(task)
    if name not in STUDIES:
        raise SettingsError(f"unknown study {name!r}: choose one of {', '.join(names)}")
    if name not in names:
        raise SettingsError(
            f"study {name!r} is one of task {STUDIES[name].task!r}, not of task {task!r}: choose one of "
            f"{', '.join(names)}"
        )
    return STUDIES[name]
