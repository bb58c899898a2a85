"""Abilities of backends, and the translator's errors for what a backend lacks."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dragoman.alignment.heads import AlignmentHead
from dragoman.errors import SettingsError
from dragoman.models.storage import load_model
from dragoman.native.engine_selection import select_engine
from dragoman.search.config import SamplingConfig, SearchConfig
from dragoman.search.results import Hypothesis, SearchInput
from dragoman.search.torch_backend import TorchBackend
from dragoman.translation.backend import Backend
from dragoman.translation.hybrid_backend import HybridBackend
from dragoman.translation.translator import Translator
from dragoman.translation.two_directions import TwoDirections
from tests.support.small_translator import random_models, tokenizer, write_model

SEARCH = SearchConfig(beam=1, max_length_offset=4)
HEAD = AlignmentHead(layer=0, head=0, from_input=False)


class SearchOnly:
    """A backend without optional abilities, which returns the source as the output."""

    description = "copies"
    sampler = None
    scorer = None
    inspectable = None

    def search(self, inputs: Sequence[SearchInput], config: SearchConfig) -> list[list[Hypothesis]]:
        return [
            [Hypothesis(tokens=tuple(each.source), log_probability=-1.0, score=-0.5, finished=True)] for each in inputs
        ]


def backends() -> dict[str, Backend]:
    """Return a backend of each kind, by name."""
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
def test_a_translator_has_the_abilities_of_its_backend(
    name: str, samples: bool, scores: bool, inspectable: bool
) -> None:
    backend = backends()[name]
    assert (backend.sampler is not None, backend.scorer is not None) == (samples, scores)
    assert (backend.inspectable is not None) == inspectable
    translator = Translator(backend, tokenizer(), max_source_tokens=20)
    pair = ("the lamp", "door")
    assert len(translator.translate(["the lamp"], search=SEARCH)) == 1

    def check(possible: bool, message: str, *calls: object) -> None:
        for call in calls:
            assert callable(call)
            if possible:
                call()
            else:
                with pytest.raises(SettingsError, match=message):
                    call()

    sampling = SamplingConfig(seed=1)
    check(
        samples, "write in the same direction", lambda: translator.translate(["the"], search=SEARCH, sampling=sampling)
    )
    not_scored = "scores .* are not available from this backend: copies"
    check(scores, not_scored, lambda: translator.score([pair]), lambda: translator.token_statistics([pair]))
    check(
        inspectable,
        "for one model, not for an ensemble",
        lambda: translator.model,
        lambda: translator.align([pair], HEAD),
        lambda: translator.alignments_by_head([pair]),
        lambda: translator.translate(["the"], search=SEARCH, alignment=HEAD),
        lambda: translator.attention(*pair),
        lambda: translator.measure_heads([pair]),
    )
    if not inspectable:
        # Raised before the text is translated.
        check(False, "for one model", lambda: translator.attention(pair[0]))


def test_an_alignment_that_is_not_available_is_refused_before_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = backends()["several"]
    monkeypatch.setattr(backend, "search", lambda *_: pytest.fail("the backend searched"))
    with pytest.raises(SettingsError, match="not for an ensemble"):
        Translator(backend, tokenizer(), max_source_tokens=20).translate(["the lamp"], alignment=HEAD)


@pytest.mark.skipif(select_engine().build is None, reason="the native engine is not installed")
def test_a_hybrid_backend_loads_the_model_in_torch_once_on_first_use(tmp_path: Path) -> None:
    write_model(tmp_path, 0, right_to_left=False)
    loaded: Any = Translator.load(tmp_path, device="cpu", engine="native").backend
    calls = []

    def load() -> TorchBackend:
        calls.append(tmp_path)
        return TorchBackend.from_models([load_model(tmp_path)])

    backend = HybridBackend(loaded.native, load)
    translator = Translator(backend, tokenizer(), max_source_tokens=20)
    translator.translate(["the lamp"], search=SEARCH)
    assert backend.sampler is not None
    assert backend.scorer is not None
    assert translator.engine.startswith("native")
    assert calls == []
    translator.translate(["the lamp"], search=SEARCH, sampling=SamplingConfig())
    translator.score([("the lamp", "door")])
    assert translator.model is backend.in_torch.only_model
    assert len(calls) == 1
