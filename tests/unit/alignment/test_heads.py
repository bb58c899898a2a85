"""Alignment heads, and the storage of the selected head in the model directory."""

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
    """A model directory with config.json only."""
    save_description(
        tmp_path, ModelDescription(architecture="transformer", model=tiny(8, 8, joint=True), trained_length=9)
    )
    return tmp_path


def test_every_head_and_the_mean_can_be_selected() -> None:
    arrays = AttentionArrays(np.zeros((2, 3, 4, 5), dtype=np.float32))
    choices = list(alignment_heads(arrays))
    assert len(choices) == len(set(choices)) == 2 * 4 * 2
    one_head = list(alignment_heads(AttentionArrays(np.ones((1, 1, 1, 1), dtype=np.float32))))
    assert {choice.head for choice in one_head} == {0}


@pytest.mark.parametrize("head", [2, None])
def test_the_head_is_stored_in_the_model_directory(model: Path, head: int | None) -> None:
    choice = AlignmentHead(layer=1, head=head, from_input=True)
    choice.save(model)
    assert AlignmentHead.load(model) == choice
    other = AlignmentHead(layer=0, head=head, from_input=True)
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
def test_a_damaged_file_is_an_error_that_names_the_file(model: Path, text: str) -> None:
    (model / ALIGNMENT_FILE).write_text(text, encoding="utf-8")
    with pytest.raises(
        ModelError, match=r"alignment\.json is damaged: config\.json does not list it; .* again|more than"
    ):
        AlignmentHead.load(model)
    # Without digests in config.json, as in directories of earlier versions, and with the digest of the damaged file.
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


def test_a_changed_file_is_refused(model: Path) -> None:
    AlignmentHead(layer=1, head=2, from_input=True).save(model)
    text = (model / ALIGNMENT_FILE).read_text()
    (model / ALIGNMENT_FILE).write_text(text.replace("2", "3"))
    with pytest.raises(ModelError, match=r"alignment\.json is damaged: its bytes are not those that config.json lists"):
        AlignmentHead.load(model)


def test_saving_keeps_the_format_version_of_the_directory(model: Path) -> None:
    edit_config(model, format=1)
    choice = AlignmentHead(layer=1, head=2, from_input=True)
    choice.save(model)
    assert json.loads((model / CONFIG_FILE).read_text())["format"] == 1
    assert AlignmentHead.load(model) == choice


def test_the_error_for_a_missing_head_names_the_command(model: Path) -> None:
    with pytest.raises(UserError, match="dragoman align"):
        AlignmentHead.load(model)


def test_saving_needs_a_model_directory(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is not a model directory"):
        AlignmentHead(layer=1, head=2, from_input=True).save(tmp_path)
    assert not list(tmp_path.iterdir())


def edit_config(directory: Path, **changes: Any) -> None:
    path = directory / CONFIG_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
