"""Backends say what they can do, and the translator says what is not possible."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dragoman.alignment.heads import AlignmentHead
from dragoman.errors import SettingsError
from dragoman.models.storage import load_model
from dragoman.search.config import SamplingConfig, SearchConfig
from dragoman.search.results import Hypothesis, Piece
from dragoman.search.torch_backend import TorchBackend
from dragoman.translation.backend import Backend
from dragoman.translation.compiled import CompiledBackend
from dragoman.translation.engine_selection import select_engine
from dragoman.translation.translator import Translator
from dragoman.translation.two_directions import TwoDirections
from tests.support.small_translator import random_models, tokenizer, write_model

SEARCH = SearchConfig(beam=1, max_length_offset=4)
HEAD = AlignmentHead(layer=0, head=0, read=False)


class SearchOnly:
    """The least that a backend is: it says the source again."""

    description = "copies"
    sampler = None
    scorer = None
    inspectable = None

    def search(self, pieces: Sequence[Piece], config: SearchConfig) -> list[list[Hypothesis]]:
        return [
            [Hypothesis(tokens=tuple(piece.source), log_probability=-1.0, score=-0.5, finished=True)]
            for piece in pieces
        ]


def backends() -> dict[str, Backend]:
    """A backend of each kind, by name, and what it can do: sample, score, be inspected."""
    one, several = (TorchBackend.from_models(random_models(count)) for count in (1, 2))
    return {"one": one, "several": several, "both": TwoDirections(one, several), "search only": SearchOnly()}


@pytest.mark.parametrize(
    ("name", "samples", "scores", "inspectable"),
    [
        ("one", True, True, True),
        ("several", True, True, False),
        ("both", False, True, False),
        ("search only", False, False, False),
    ],
)
def test_a_translator_does_what_its_backend_can(name: str, samples: bool, scores: bool, inspectable: bool) -> None:
    backend = backends()[name]
    assert (backend.sampler is not None, backend.scorer is not None) == (samples, scores)
    assert (backend.inspectable is not None) == inspectable
    translator = Translator(backend, tokenizer(), max_source_tokens=20)
    pair = ("the lamp", "door")
    assert len(translator.translate(["the lamp"], search=SEARCH)) == 1

    def tried(possible: bool, message: str, *calls: object) -> None:
        for call in calls:
            assert callable(call)
            if possible:
                call()
            else:
                with pytest.raises(SettingsError, match=message):
                    call()

    sampling = SamplingConfig(seed=1)
    tried(samples, "write in one direction", lambda: translator.translate(["the"], search=SEARCH, sampling=sampling))
    not_scored = "scores .* are not available from this backend: copies"
    tried(scores, not_scored, lambda: translator.score([pair]), lambda: translator.token_statistics([pair]))
    tried(
        inspectable,
        "of one model, not of an ensemble",
        lambda: translator.model,
        lambda: translator.align([pair], HEAD),
        lambda: translator.alignments_by_head([pair]),
        lambda: translator.translate(["the"], search=SEARCH, alignment=HEAD),
        lambda: translator.attention(*pair),
        lambda: translator.measure_heads([pair]),
    )
    if not inspectable:
        # Before it is translated.
        tried(False, "of one model", lambda: translator.attention(pair[0]))


def test_what_cannot_be_aligned_is_refused_before_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = backends()["several"]
    monkeypatch.setattr(backend, "search", lambda *_: pytest.fail("it searched"))
    with pytest.raises(SettingsError, match="not of an ensemble"):
        Translator(backend, tokenizer(), max_source_tokens=20).translate(["the lamp"], alignment=HEAD)


@pytest.mark.skipif(select_engine().build is None, reason="the compiled engine is not installed")
def test_a_compiled_backend_loads_torch_once_and_only_when_it_is_needed(tmp_path: Path) -> None:
    write_model(tmp_path, 0, right_to_left=False)
    loaded: Any = Translator.load(tmp_path, device="cpu", engine="native").backend
    calls = []

    def load() -> TorchBackend:
        calls.append(tmp_path)
        return TorchBackend.from_models([load_model(tmp_path)])

    backend = CompiledBackend(loaded.native, load)
    translator = Translator(backend, tokenizer(), max_source_tokens=20)
    translator.translate(["the lamp"], search=SEARCH)
    assert backend.sampler is not None
    assert backend.scorer is not None
    assert translator.engine.startswith("compiled")
    assert calls == []
    translator.translate(["the lamp"], search=SEARCH, sampling=SamplingConfig())
    translator.score([("the lamp", "door")])
    assert translator.model is backend.in_torch.only_model
    assert len(calls) == 1
