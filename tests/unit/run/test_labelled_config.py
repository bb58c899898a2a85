"""Defaults for the settings of the training of a classifier or a tagger."""

from typing import Any

import pytest

from dragoman.models.config.masked import MaskedConfig
from dragoman.run.labelled_config import read_labelled_settings


@pytest.mark.parametrize(
    ("width", "settings", "rate"),
    [
        (None, {}, 0.001),
        (64, {"from_model": "encoder"}, 0.002),
        (192, {"from_model": "encoder"}, 0.0016),
        (768, {"from_model": "encoder"}, 0.0001),
        (768, {"from_model": "encoder", "frozen": True}, 0.01),
        (768, {"from_model": "encoder", "schedule": {"peak_learning_rate": 0.5}}, 0.5),
    ],
)
def test_the_learning_rate_depends_on_the_width_of_a_trained_encoder(
    width: int | None, settings: dict[str, Any], rate: float
) -> None:
    encoder = None if width is None else MaskedConfig(vocabulary=100, layers=2, d_model=width, heads=4, d_ff=128)
    config = read_labelled_settings("classify", settings).resolve(1000, encoder)
    assert config.schedule.peak_learning_rate == pytest.approx(rate, rel=0.05)
