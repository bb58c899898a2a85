"""The heads that can be chosen, and the choice beside a model."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dragoman.alignment.heads import AlignmentHead, alignment_heads
from dragoman.attention_page.arrays import AttentionArrays
from dragoman.errors import ModelError, UserError
from dragoman.models.description import (
    ALIGNMENT_FILE,
    CONFIG_FILE,
    ModelDescription,
    load_description,
    save_description,
)
from tests.support.tiny import tiny


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """What of a model directory is looked at here."""
    save_description(
        tmp_path, ModelDescription(architecture="transformer", model=tiny(8, 8, joint=True), trained_length=9)
    )
    return tmp_path


def test_every_head_and_the_mean_can_be_chosen() -> None:
    arrays = AttentionArrays(np.zeros((2, 3, 4, 5), dtype=np.float32))
    choices = list(alignment_heads(arrays))
    assert len(choices) == len(set(choices)) == 2 * 4 * 2
    one_head = list(alignment_heads(AttentionArrays(np.ones((1, 1, 1, 1), dtype=np.float32))))
    assert {choice.head for choice in one_head} == {0}


@pytest.mark.parametrize("head", [2, None])
def test_the_choice_is_kept_beside_the_model(model: Path, head: int | None) -> None:
    choice = AlignmentHead(layer=1, head=head, read=True)
    choice.save(model)
    assert AlignmentHead.load(model) == choice
    other = AlignmentHead(layer=0, head=head, read=True)
    other.save(model)
    assert AlignmentHead.load(model) == other


DAMAGED = ["{", "[]", '{"layer": 1}', '{"layer": 1, "head": 0, "read": true, "x": 1}', "\0", "[" * 900]
DAMAGED += ['{"layer": -1, "head": 0, "read": true}', '{"layer": 0, "head": 99999999999999999999, "read": true}']
DAMAGED += [
    '{"layer": 0, "head": 0, "read": true, "\\ud800\\n\\u001b[2J": 1}',
    '{"layer": NaN, "head": 0, "read": true}',
]
DAMAGED += [" " * 2000, "\ufffe"]


@pytest.mark.parametrize("text", DAMAGED, ids=lambda text: text[:40])
def test_a_damaged_choice_is_an_error_that_names_the_file(model: Path, text: str) -> None:
    (model / ALIGNMENT_FILE).write_text(text, encoding="utf-8")
    with pytest.raises(
        ModelError, match=r"alignment\.json is damaged: config\.json does not list it; .* anew|more than"
    ):
        AlignmentHead.load(model)
    # As the directories of earlier versions are, and those of a stranger who lists what is there.
    for listed in (False, True):
        if listed:
            if len(text) > 1024:
                continue
            save_description(model, load_description(model))
        else:
            edit_config(model, format=1)
        with pytest.raises(ModelError, match=r"alignment\.json") as caught:
            AlignmentHead.load(model)
        assert str(caught.value).isprintable()


def test_a_choice_that_was_changed_is_refused(model: Path) -> None:
    AlignmentHead(layer=1, head=2, read=True).save(model)
    text = (model / ALIGNMENT_FILE).read_text()
    (model / ALIGNMENT_FILE).write_text(text.replace("2", "3"))
    with pytest.raises(ModelError, match=r"alignment\.json is damaged: its bytes are not those that config.json lists"):
        AlignmentHead.load(model)


def test_a_directory_of_an_earlier_version_stays_one(model: Path) -> None:
    edit_config(model, format=1)
    choice = AlignmentHead(layer=1, head=2, read=True)
    choice.save(model)
    assert json.loads((model / CONFIG_FILE).read_text())["format"] == 1
    assert AlignmentHead.load(model) == choice


def test_without_a_choice_one_is_told_how_to_get_it(model: Path) -> None:
    with pytest.raises(UserError, match="dragoman align"):
        AlignmentHead.load(model)


def test_without_a_model_there_is_nothing_to_choose_for(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is not a model directory"):
        AlignmentHead(layer=1, head=2, read=True).save(tmp_path)
    assert not list(tmp_path.iterdir())


def edit_config(directory: Path, **changes: Any) -> None:
    path = directory / CONFIG_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
