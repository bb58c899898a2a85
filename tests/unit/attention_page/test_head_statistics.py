"""Statistics and roles of heads, for weights whose statistics can be computed by hand."""

import numpy as np
import pytest

from dragoman.attention_page.statistics import HeadStatistics, is_separator, measure

TOKENS = ["▁the", "▁lamp", ".", "</s>"]


def statistics_of(weights: list[list[float]], kind: str = "encoder_self", keys: list[str] = TOKENS) -> HeadStatistics:
    [statistics] = measure(np.array([[weights]]), kind, keys)  # type: ignore[arg-type]
    return statistics


def test_a_head_that_attends_to_the_previous_token() -> None:
    statistics = statistics_of([[1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]])
    assert statistics.previous == pytest.approx(3 / 4)
    assert statistics.same == pytest.approx(1 / 4)
    assert statistics.distance == pytest.approx(3 / 4)
    assert statistics.entropy == statistics.evenness == 0
    assert statistics.confidence == 1
    assert statistics.separator == pytest.approx(1 / 4)
    assert statistics.role == ("previous", statistics.previous)


def test_a_head_with_uniform_weights() -> None:
    statistics = statistics_of([[0.25] * 4] * 4)
    assert statistics.entropy == pytest.approx(2)
    assert statistics.evenness == pytest.approx(1)
    assert statistics.confidence == pytest.approx(0.25)
    assert statistics.role[0] == "separator", "half of the tokens are separators"
    role, evenness = statistics_of([[0.25] * 4] * 4, keys=["▁a", "▁b", "▁c", "</s>"]).role
    assert role == "broad"
    assert evenness == pytest.approx(1)


def test_evenness_of_a_causal_head_is_relative_to_the_visible_keys() -> None:
    weights: list[list[float]] = [[1, 0, 0], [0.5, 0.5, 0], [1 / 3] * 3]
    statistics = statistics_of(weights, "decoder_self", ["<s>", "▁a", "▁b"])
    assert statistics.evenness == pytest.approx(1)
    assert statistics.entropy == pytest.approx((0 + 1 + np.log2(3)) / 3)


def test_the_diagonal_connects_the_ends_of_source_and_target() -> None:
    statistics = statistics_of([[1, 0, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 1]], "encoder_decoder", ["▁a"] * 5)
    assert statistics.same == 1
    assert statistics.distance == 0
    assert statistics.role == ("same", 1)


def test_the_diagonal_of_a_right_to_left_model() -> None:
    """The last token of the text is written first, and </s> last."""
    weights = np.array([[0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]], dtype=np.float32)
    [statistics] = measure(weights[None, None], "encoder_decoder", TOKENS, right_to_left=True)
    assert (statistics.same, statistics.distance, statistics.role[0]) == (1, 0, "same")
    previous = np.array([[0, 1, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0]], dtype=np.float32)
    [statistics] = measure(previous[None, None], "encoder_decoder", TOKENS, right_to_left=True)
    assert (statistics.previous, statistics.same, statistics.role[0]) == (3 / 4, 1 / 4, "previous")
    # In decoder self-attention, the token that was written before is the previous one, in both directions.
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
