"""What is chosen where a run file is silent."""

import pytest

from dragoman.errors import UserError
from dragoman.run.config import RunConfig, choose_by_budget, choose_by_size, merge, model_config
from dragoman.settings import from_mapping


@pytest.mark.parametrize("pairs", [0, 100, 49_999, 50_000, 199_999, 1_999_999, 50_000_000])
@pytest.mark.parametrize("training", [{"minutes": 5.0}, {"steps": 70}, {}])
def test_what_is_chosen_is_a_valid_run_for_every_size_and_budget(pairs: int, training: dict[str, float]) -> None:
    by_size = choose_by_size(pairs)
    layered = merge(by_size, choose_by_budget(pairs, pairs // 100, training), {"training": training})
    model = layered.pop("model", {})
    config = from_mapping(RunConfig, layered, "test")
    assert model_config(config, model, 8000, 8000).target_vocabulary == 8000
    assert (config.training.steps is None) == ("minutes" in training)


def test_the_budget_without_a_word_grows_with_the_corpus_within_bounds() -> None:
    steps = [choose_by_budget(pairs, pairs // 100, {})["training"]["steps"] for pairs in (10, 20_000, 10**6, 10**9)]
    assert steps == [1000, 12_000, 30_000, 100_000]


def test_the_warm_up_is_the_papers_or_a_tenth_of_a_short_run() -> None:
    assert choose_by_budget(0, 0, {"steps": 100_000})["schedule"] == {"kind": "paper", "warmup": 4000}
    assert choose_by_budget(0, 0, {"steps": 500})["schedule"] == {"kind": "paper", "warmup": 50}
    assert choose_by_budget(0, 0, {"steps": 1})["schedule"]["warmup"] == 1


def test_a_short_run_on_a_small_corpus_takes_muon_and_nothing_else_does() -> None:
    def optimizer(pairs: int, training: dict[str, float]) -> object:
        return choose_by_budget(pairs, 100, training)["training"].get("optimizer", "adam")

    assert optimizer(20_000, {"minutes": 5}) == "muon"
    assert optimizer(20_000, {"minutes": 20}) == optimizer(10**6, {"minutes": 5}) == "adam"
    assert optimizer(20_000, {"steps": 500}) == optimizer(20_000, {}) == "adam"


def test_many_characters_get_room_beside_the_words() -> None:
    assert choose_by_size(20_000, characters=120)["tokenizer"]["vocabulary_size"] == 4000
    assert choose_by_size(20_000, characters=2500)["tokenizer"]["vocabulary_size"] == 6000


@pytest.mark.parametrize("architecture", ["transformer", "universal", "recurrent", "convolutional", "oracle", [], 3])
def test_pre_norm_is_for_those_that_have_a_norm_to_place(architecture: object) -> None:
    model = choose_by_size(20_000, architecture=architecture)["model"]
    assert model == ({"norm_placement": "pre"} if architecture in ("transformer", "universal") else {})


def test_later_layers_win_key_by_key() -> None:
    assert merge({"a": {"x": 1, "y": 2}, "b": 1}, {"a": {"y": 3}}, {"b": {"z": 4}}) == {
        "a": {"x": 1, "y": 3},
        "b": {"z": 4},
    }


def test_the_model_table_must_be_a_table_of_known_keys() -> None:
    config = RunConfig(training=from_mapping(RunConfig, {"training": {"steps": 1}}, "test").training)
    with pytest.raises(UserError, match="table"):
        model_config(config, 5, 1000, 1000)
    with pytest.raises(UserError, match="d_model"):
        model_config(config, {"d_modl": 8}, 1000, 1000)
    assert model_config(config, {"d_model": 8, "heads": 2}, 1000, 1000).d_model == 8
