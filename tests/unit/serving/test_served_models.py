"""The models of a server and their languages."""

from pathlib import Path

import pytest

from dragoman.serving.workers.served_models import find_models
from tests.support.small_translator import write_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "model", 1, right_to_left=False)


@pytest.mark.parametrize(
    ("languages", "pair"),
    [
        ("en-de", ("en", "de")),
        ("en-pt-BR", ("en", "pt-BR")),
        ("EN-pt_br", ("en", "pt-BR")),
        ("zh-Hans-en-US", ("zh-Hans", "en-US")),
        ("en-es-419", ("en", "es-419")),
        ("en-de2", ("en", "de2")),
    ],
)
def test_languages_of_an_argument(model: Path, languages: str, pair: tuple[str, str]) -> None:
    assert find_models([f"{model}={languages}"]) == {pair: model}
