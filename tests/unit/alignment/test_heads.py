"""The heads that can be chosen, and the choice beside a model."""

from pathlib import Path

import numpy as np
import pytest

from dragoman.alignment.heads import AlignmentHead, alignment_heads
from dragoman.attention_page.arrays import AttentionArrays
from dragoman.errors import UserError


def test_every_head_and_the_mean_can_be_chosen() -> None:
    arrays = AttentionArrays(np.zeros((2, 3, 4, 5), dtype=np.float32))
    choices = list(alignment_heads(arrays))
    assert len(choices) == len(set(choices)) == 2 * 4 * 2
    one_head = list(alignment_heads(AttentionArrays(np.ones((1, 1, 1, 1), dtype=np.float32))))
    assert {choice.head for choice in one_head} == {0}


@pytest.mark.parametrize("head", [2, None])
def test_the_choice_is_kept_beside_the_model(tmp_path: Path, head: int | None) -> None:
    choice = AlignmentHead(layer=1, head=head, read=True)
    choice.save(tmp_path)
    assert AlignmentHead.load(tmp_path) == choice


@pytest.mark.parametrize("text", ["{", "[]", '{"layer": 1}', '{"layer": 1, "head": 0, "read": true, "x": 1}', "\0"])
def test_a_damaged_choice_is_an_error_that_names_the_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "alignment.json").write_text(text)
    with pytest.raises(UserError, match=r"alignment\.json"):
        AlignmentHead.load(tmp_path)


def test_without_a_choice_one_is_told_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="dragoman align"):
        AlignmentHead.load(tmp_path)
