"""The commands `attention` and `align`, end to end."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from dragoman.alignment.heads import AlignmentHead
from tests.support.command_line import dragoman, make_workplace

PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_workplace(tmp_path_factory.mktemp("cli"))


def test_the_attention_for_a_sentence_is_written_in_every_format(
    workplace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("page.html", "picture.png", "picture.svg", "arrays.npz", "numbers.json"):
        assert dragoman(monkeypatch, "attention", workplace / "model", "forty-two", "--out", tmp_path / name) == 0
        assert str(tmp_path / name) in capsys.readouterr().out
    assert b"forty-two" in (tmp_path / "page.html").read_bytes()
    assert (tmp_path / "picture.png").read_bytes().startswith(PNG)
    assert b"<svg" in (tmp_path / "picture.svg").read_bytes()
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    arrays = np.load(tmp_path / "arrays.npz", allow_pickle=False)
    weights = arrays["encoder_decoder.weights"]
    assert weights.shape == (2, 4, len(numbers["predicted"]), len(numbers["source"]))
    np.testing.assert_allclose(numbers["encoder_decoder"]["weights"], weights, atol=1e-6)
    assert arrays["encoder_self.query"].shape[:3] == arrays["encoder_self.weights"].shape[:3]
    assert arrays["encoder_self.scale"] == arrays["encoder_self.query"].shape[3] ** -0.5
    assert list(arrays["source"]) == numbers["source"]


def test_one_head_of_a_given_target_by_words(
    workplace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["attention", str(workplace / "model"), "one hundred", "--target", "einhundert", "--words"]
    one = [*arguments, "--kind", "encoder_self", "--layer", "2", "--head", "1"]
    assert dragoman(monkeypatch, *one, "--out", tmp_path / "one.svg") == 0
    assert "einhundert" in capsys.readouterr().out
    svg = (tmp_path / "one.svg").read_text()
    assert "encoder self-attention, layer 2, head 1" in svg
    assert ">hundred<" in svg
    assert dragoman(monkeypatch, *arguments, "--out", tmp_path / "all.json") == 0
    assert json.loads((tmp_path / "all.json").read_text())["source"] == ["one", "hundred", "</s>"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["", "--out", "page.html"], "the text is empty"),
        (["\u2028 \0", "--out", "page.html"], "the text is empty"),
        (["one " * 400, "--out", "page.html"], "subwords, and attention is shown for at most"),
        (["one", "--out", "page.pdf"], "choose a name that ends in .html"),
        (["one", "--out", "nowhere/page.html"], "the directory nowhere does not exist"),
        (["one"], "use exactly one of --out page.html (one sentence), --serve"),
        (["one", "--serve", "--out", "page.html"], "use exactly one of --out page.html (one sentence), --serve"),
        (["one", "--serve", "--port", "99999"], "cannot use port 99999 of 127.0.0.1"),
        (["one", "--out", "a.png", "--layer", "1"], "--layer and --head require each other"),
        (["one", "--out", "a.png", "--layer", "9", "--head", "1"], "there is no layer 9, head 1"),
        (["one", "--out", "a.png", "--layer", "0", "--head", "1"], "there is no layer 0, head 1"),
        (["one", "--out", "a.png", "--prune", "1"], "--prune requires --report"),
        (["one", "--target", " ", "--out", "a.png"], "the translation is empty"),
        (["one.tsv", "--report", "r.html"], "one.tsv"),
    ],
)
def test_errors_are_explained_and_nothing_is_written(
    workplace: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert dragoman(monkeypatch, "attention", workplace / "model", *arguments) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_path_that_cannot_be_written_is_named(
    workplace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = tmp_path / "taken.html"
    taken.mkdir()
    assert dragoman(monkeypatch, "attention", workplace / "model", "one", "--quick", "--out", taken) == 2
    assert f"{taken} cannot be written: Is a directory" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["taken.html"]


def test_a_directory_without_a_model_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dragoman(monkeypatch, "attention", tmp_path, "one", "--out", tmp_path / "a.html") == 2
    assert "is not a model directory" in capsys.readouterr().err


def test_a_report_on_all_heads_with_pruning(
    workplace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        "attention",
        str(workplace / "model"),
        str(workplace / "test.tsv"),
        "--prune",
        "3",
        "--sentences",
        "10",
    ]
    assert dragoman(monkeypatch, *arguments, "--report", tmp_path / "report.html") == 0
    out = capsys.readouterr().out
    # 2 layers of 4 heads, in three kinds of attention
    rows = re.findall(r"^(\S+ \S*attention) \d\.\d +\w+ +([+-]\d+\.\d+)", out, flags=re.MULTILINE)
    assert len(rows) == 24
    importance = [float(row[1]) for row in rows]
    assert importance == sorted(importance, reverse=True)
    assert re.search(r"BLEU \d+\.\d\d before, \d+\.\d\d after", out)
    page = (tmp_path / "report.html").read_text()
    assert page.count('<th scope="row">') == 24
    assert "data:image/png;base64," in page


def test_words_are_aligned_by_the_selected_head(
    workplace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model, test = workplace / "model", workplace / "test.tsv"
    pairs = [line.split("\t") for line in test.read_text().splitlines()]
    gold = tmp_path / "gold.txt"
    gold.write_text("0-0\n" * len(pairs))
    (tmp_path / "lines.txt").write_text("".join(source + "\n" for source, _ in pairs))

    assert dragoman(monkeypatch, "translate", model, tmp_path / "lines.txt", "--alignment") == 2
    assert "dragoman align" in capsys.readouterr().err
    assert dragoman(monkeypatch, "align", model, test) == 2
    assert "too few to rank heads" in capsys.readouterr().err
    assert dragoman(monkeypatch, "align", model, workplace / "train.tsv", "--pairs", "100") == 0
    assert "links on which lexicons of 600 pairs agree" in capsys.readouterr().out

    assert dragoman(monkeypatch, "align", model, test, "--reference", gold) == 0
    out = capsys.readouterr().out
    assert "diagonal" in out
    assert (model / "alignment.json").exists()

    assert dragoman(monkeypatch, "translate", model, tmp_path / "lines.txt", "--alignment") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(pairs)
    for (source, _), line in zip(pairs, lines, strict=True):
        translation, links = line.split(" ||| ")
        parsed = [tuple(map(int, link.split("-"))) for link in links.split()]
        assert [target for _, target in parsed] == list(range(len(translation.split())))
        assert all(0 <= word < len(source.split()) for word, _ in parsed)

    assert dragoman(monkeypatch, "evaluate", model, test, "--alignment", gold, "--json") == 0
    metrics = json.loads(capsys.readouterr().out)["alignment"]
    assert 0 <= metrics["error_rate"] <= 1
    # Most targets have a single word.
    assert metrics["links"] >= len(pairs)


@pytest.mark.parametrize(
    ("lines", "message"),
    [("0-0\n", "has 1 lines for 12 pairs"), ("0-0\n" * 11 + "0-99\n", r"gold.txt:12: the link 0-99 is out of range")],
)
def test_reference_alignments_that_do_not_fit_the_pairs_are_refused(
    workplace: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    lines: str,
    message: str,
) -> None:
    (tmp_path / "gold.txt").write_text(lines)
    arguments = (workplace / "model", workplace / "test.tsv", "--reference", tmp_path / "gold.txt")
    assert dragoman(monkeypatch, "align", *arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["align", "evaluate"])
def test_a_pair_that_is_too_long_to_align_is_named(
    workplace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    AlignmentHead(layer=0, head=0, from_input=False).save(workplace / "model")
    (tmp_path / "long.tsv").write_text("one\teins\n" + "one " * 500 + "\teins\n")
    (tmp_path / "gold.txt").write_text("0-0\n0-0\n")
    option = "--reference" if verb == "align" else "--alignment"
    assert dragoman(monkeypatch, verb, workplace / "model", tmp_path / "long.tsv", option, tmp_path / "gold.txt") == 2
    assert "pair 2 has more than" in capsys.readouterr().err
