"""What heads seem to do, by figures that can be checked by hand."""

import numpy as np
import pytest

from dragoman.attention_page.statistics import HeadStatistics, is_separator, measure

TOKENS = ["▁the", "▁lamp", ".", "</s>"]


def of(weights: list[list[float]], kind: str = "encoder_self", keys: list[str] = TOKENS) -> HeadStatistics:
    [found] = measure(np.array([[weights]]), kind, keys)  # type: ignore[arg-type]
    return found


def test_a_head_that_looks_back() -> None:
    found = of([[1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]])
    assert found.previous == pytest.approx(3 / 4)
    assert found.same == pytest.approx(1 / 4)
    assert found.distance == pytest.approx(3 / 4)
    assert found.entropy == found.evenness == 0
    assert found.confidence == 1
    assert found.separator == pytest.approx(1 / 4)
    assert found.role == ("previous", found.previous)


def test_a_head_that_looks_everywhere() -> None:
    found = of([[0.25] * 4] * 4)
    assert found.entropy == pytest.approx(2)
    assert found.evenness == pytest.approx(1)
    assert found.confidence == pytest.approx(0.25)
    assert found.role[0] == "separator", "half of the tokens are separators"
    role, evenness = of([[0.25] * 4] * 4, keys=["▁a", "▁b", "▁c", "</s>"]).role
    assert role == "broad"
    assert evenness == pytest.approx(1)


def test_a_causal_head_is_even_over_what_it_may_see() -> None:
    weights: list[list[float]] = [[1, 0, 0], [0.5, 0.5, 0], [1 / 3] * 3]
    found = of(weights, "decoder_self", ["<s>", "▁a", "▁b"])
    assert found.evenness == pytest.approx(1)
    assert found.entropy == pytest.approx((0 + 1 + np.log2(3)) / 3)


def test_between_source_and_target_the_diagonal_joins_the_ends() -> None:
    found = of([[1, 0, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 1]], "encoder_decoder", ["▁a"] * 5)
    assert found.same == 1
    assert found.distance == 0
    assert found.role == ("same", 1)


def test_from_right_to_left_the_diagonal_is_the_other_one() -> None:
    """The text's last token is written first, and </s> last."""
    weights = np.array([[0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]], dtype=np.float32)
    [found] = measure(weights[None, None], "encoder_decoder", TOKENS, right_to_left=True)
    assert (found.same, found.distance, found.role[0]) == (1, 0, "same")
    behind = np.array([[0, 1, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0]], dtype=np.float32)
    [found] = measure(behind[None, None], "encoder_decoder", TOKENS, right_to_left=True)
    assert (found.previous, found.same, found.role[0]) == (3 / 4, 1 / 4, "previous")
    # Within the target, what was written before is previous, in whatever direction.
    written = np.tril(np.ones((3, 3), dtype=np.float32))
    assert measure(written[None, None], "decoder_self", ["<s>", "b", "a"], right_to_left=True) == measure(
        written[None, None], "decoder_self", ["<s>", "b", "a"]
    )


@pytest.mark.parametrize(
    ("token", "expected"),
    [("</s>", True), ("▁.", True), ("▁«", True), ("▁a.", False), ("▁", False), ("。", True), ("$", False)],
)
def test_separators(token: str, expected: bool) -> None:
    assert is_separator(token) == expected
