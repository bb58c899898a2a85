"""The commands end to end, on a model trained for a few updates."""

import gzip
import io
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from dragoman.models.transformer import Transformer
from dragoman.native.engine_selection import select_engine
from dragoman.text.subwords import EOS
from dragoman.training.checkpoint import load_checkpoint
from tests.support.command_line import SETTINGS, dragoman, make_workplace
from tests.support.processes import dragoman_process


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with corpora and two models."""
    return make_workplace(tmp_path_factory.mktemp("cli"))


def test_train_writes_a_model_directory(workplace: Path) -> None:
    model = workplace / "model"
    assert {path.name for path in model.iterdir()} == {
        "config.json",
        "model.safetensors",
        "tokenizer.model",
        "metrics.json",
        "README.md",
        "run",
    }
    assert (model / "run/curves.png").read_bytes().startswith(b"\x89PNG")
    metrics = json.loads((model / "metrics.json").read_text())
    assert metrics["validation"]["pairs"] == 20
    assert metrics["validation"]["loss"] > 0
    assert "600 pairs from train.tsv" in (model / "README.md").read_text()


def test_translate_prints_one_line_per_line(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    lines = [
        b"forty-two",
        b"",
        b"one\xe2\x80\xa8two\x00three\xc2\x85four",
        b"not \xff UTF-8",
        b"   ",
        b"seven\r",
        " ".join(map(str, range(1000))).encode(),
        b"nine " * 3000,
        b"x" * 20_000,
        b"the last line has no line feed",
    ]
    (workplace / "hostile.txt").write_bytes(b"\n".join(lines))
    options = ("--beam", "2", "--max-line-characters", "15000")
    assert dragoman(monkeypatch, "translate", workplace / "model", workplace / "hostile.txt", *options) == 0
    output, errors = capfdbinary.readouterr()
    translated = output.decode().split("\n")
    assert len(translated) == len(lines) + 1
    assert translated[-1] == ""
    assert translated[1] == translated[4] == ""
    assert all(translated[i] for i in (0, 2, 3, 5, 6, 9))
    assert translated[7:9] == ["nine " * 2999 + "nine", "x" * 20_000]
    assert b"line 4: invalid UTF-8" in errors
    assert b"line 7: a sentence longer than any in training was split" in errors
    assert b"line 8: 14,999 characters were copied without translation" in errors
    assert b"line 9: longer than --max-line-characters; the line was copied without translation" in errors


def test_score_prints_one_line_per_pair_even_if_it_is_too_long(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (workplace / "long.tsv").write_text("one\teins\n" + "two " * 100 + "\tzwei\nthree\tdrei\n")
    assert (
        dragoman(monkeypatch, "score", workplace / "model", workplace / "long.tsv", "--max-line-characters", "50") == 0
    )
    output, errors = capsys.readouterr()
    lines = output.splitlines()
    assert [line == "nan\tnan" for line in lines] == [False, True, False]
    assert errors == "dragoman: pair 2: longer than --max-line-characters; not scored\n"


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="/dev/zero does not exist")
def test_an_endless_line_is_an_error(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dragoman(monkeypatch, "translate", workplace / "model", "/dev/zero") == 2
    assert "/dev/zero:1: the line has more than 67,108,864 bytes" in capsys.readouterr().err


def test_translate_reads_standard_input_and_gzip(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    text = b"one\ntwo hundred\n"
    (workplace / "text.gz").write_bytes(gzip.compress(text))
    assert dragoman(monkeypatch, "translate", workplace / "model", workplace / "text.gz") == 0
    from_file = capfdbinary.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert dragoman(monkeypatch, "translate", workplace / "model") == 0
    assert capfdbinary.readouterr().out == from_file
    assert from_file.count(b"\n") == 2


def test_json_contains_alternatives_scores_and_flags(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (workplace / "one.txt").write_text("five\n")
    arguments = ("translate", workplace / "model", workplace / "one.txt", "--n-best", "3")
    assert dragoman(monkeypatch, *arguments) == 2
    assert b"--json" in capfdbinary.readouterr().err
    assert dragoman(monkeypatch, *arguments, "--json") == 0
    [line] = capfdbinary.readouterr().out.splitlines()
    result = json.loads(line)
    scores = [alternative["score"] for alternative in result["alternatives"]]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    assert result["text"] == result["alternatives"][0]["text"]
    assert result["cut"] is False


def test_samples_depend_on_the_seed_and_output_begins_with_prefixes(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (workplace / "one.txt").write_text("five\n")

    def sample(seed: int) -> bytes:
        arguments = ("translate", workplace / "model", workplace / "one.txt", "--sample", "--seed", str(seed))
        assert dragoman(monkeypatch, *arguments) == 0
        return capfdbinary.readouterr().out

    assert sample(1) == sample(1)
    assert len({sample(seed) for seed in range(2, 6)}) > 1
    (workplace / "prefix.txt").write_text("hundert\n")
    arguments = ("translate", workplace / "model", workplace / "one.txt", "--prefixes", workplace / "prefix.txt")
    assert dragoman(monkeypatch, *arguments) == 0
    assert capfdbinary.readouterr().out.startswith(b"hundert")


def test_score_equals_the_log_probability_of_translate(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (workplace / "one.txt").write_text("five\n")
    assert (
        dragoman(monkeypatch, "translate", workplace / "model", workplace / "one.txt", "--json", "--precision", "fp32")
        == 0
    )
    result = json.loads(capfdbinary.readouterr().out)
    (workplace / "own.tsv").write_text(f"five\t{result['text']}\n")
    assert dragoman(monkeypatch, "score", workplace / "model", workplace / "own.tsv") == 0
    log_probability, score = map(float, capfdbinary.readouterr().out.split())
    # The text may be encoded to other subwords than the search found; it is then less probable.
    assert log_probability <= result["log_probability"] + 1e-3
    assert score == pytest.approx(result["score"], abs=1e-3) or log_probability < result["log_probability"]


def test_evaluate_prints_metrics_signatures_examples_and_significance(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    arguments = ("evaluate", workplace / "model", workplace / "test.tsv")
    options = ("--against", workplace / "other", "--examples", "10", "--output", workplace / "out.txt")
    assert dragoman(monkeypatch, *arguments, *options) == 0
    output = capfdbinary.readouterr().out.decode()
    for expected in ("BLEU", "chrF", "TER", "perplexity", "nrefs:1|", "paired bootstrap"):
        assert expected in output
    assert output.count("\nreference ") == 10
    assert (workplace / "out.txt").read_text().count("\n") == 12
    assert dragoman(monkeypatch, *arguments, "--json") == 0
    report = json.loads(capfdbinary.readouterr().out)
    assert report["sentences"] == 12
    assert report["perplexity"] > 1
    assert (report["metric"], report["pairs"], report["split"], report["beam"]) == ("translation", 12, 0, 4)
    assert "token_statistics" not in report


def test_evaluate_an_ensemble(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    def evaluate(*models: str | Path) -> dict[str, Any]:
        assert dragoman(monkeypatch, "evaluate", *models, workplace / "test.tsv", "--json") == 0
        return dict(json.loads(capfdbinary.readouterr().out))

    one, other = evaluate(workplace / "model", "--engine", "torch"), evaluate(workplace / "other", "--engine", "torch")
    ensemble = ("--ensemble", workplace / "other", "--output", workplace / "ensemble.txt")
    assert dragoman(monkeypatch, "evaluate", workplace / "model", workplace / "test.tsv", *ensemble, "--json") == 0
    both = json.loads(capfdbinary.readouterr().out)
    assert both["engine"].endswith("an ensemble of 2 models")
    # The logarithm of a mean is at least the mean of the logarithms (Jensen).
    assert both["perplexity"] < math.sqrt(one["perplexity"] * other["perplexity"])
    sources = [line.split("\t")[0] + "\n" for line in (workplace / "test.tsv").read_text().splitlines()]
    (workplace / "sources.txt").write_text("".join(sources))
    translate = ("translate", workplace / "model", workplace / "sources.txt", "--ensemble", workplace / "other")
    assert dragoman(monkeypatch, *translate) == 0
    assert capfdbinary.readouterr().out.decode() == (workplace / "ensemble.txt").read_text()
    against = ("--against", workplace / "other", "--beam", "1")
    assert dragoman(monkeypatch, "evaluate", workplace / "model", workplace / "test.tsv", *ensemble, *against) == 0
    assert f"{workplace / 'model'} + {workplace / 'other'}  " in capfdbinary.readouterr().out.decode()
    backward = workplace / "backward"
    shutil.copytree(workplace / "other", backward)
    description = json.loads((backward / "config.json").read_text())
    (backward / "config.json").write_text(json.dumps({**description, "right_to_left": True}))
    reverse = evaluate(backward, "--engine", "torch")
    joint = evaluate(workplace / "model", "--ensemble", backward)
    assert joint["engine"].startswith("left to right: torch")
    assert joint["perplexity"] == pytest.approx(math.sqrt(one["perplexity"] * reverse["perplexity"]), rel=1e-4)
    gold = ("--alignment", workplace / "gold.txt")
    assert dragoman(monkeypatch, "evaluate", workplace / "model", workplace / "test.tsv", *ensemble, *gold) == 2
    assert b"not with an ensemble" in capfdbinary.readouterr().err


def hostile_pairs(path: Path) -> Path:
    """Write six lines with five sources, as JSON lines, which can represent any text."""
    pairs = [
        ("five", "fünf"),
        ("seven\u2028eight", "sieben acht"),
        ("five", "f\u00fcnf\u0000 \u2029 x"),
        ("", "nichts"),
        ("[bold]nine[/bold] \x1b[31m", ""),
        ("nine " * 60, "neun " * 60),
    ]
    path.write_text("".join(json.dumps({"source": source, "target": target}) + "\n" for source, target in pairs))
    return path


def test_evaluate_symbols_with_several_references(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    test = hostile_pairs(workplace / "symbols.jsonl")
    arguments = ("evaluate", workplace / "model", test, "--metric", "symbols")
    options = ("--against", workplace / "other", "--examples", "5", "--output", workplace / "symbols.txt")
    assert dragoman(monkeypatch, *arguments, *options) == 0
    output = capfdbinary.readouterr().out.decode()
    for expected in ("symbol error rate", "sequence accuracy", "nrefs:var|", "with 5 sources", "paired bootstrap"):
        assert expected in output
    assert " of 5 sources had more than " in output
    assert "--max-source-tokens sets this limit" in output
    assert output.count("\ntranslation ") == 5
    assert output.count("\nreference ") == 6
    written = (workplace / "symbols.txt").read_text().split("\n")
    assert len(written) == 7
    assert written[0] == written[2]
    assert written[3] == ""

    bounds = ("--length-bounds", "1,2", "--max-source-tokens", "500", "--json")
    assert dragoman(monkeypatch, *arguments, *bounds) == 0
    report = json.loads(capfdbinary.readouterr().out)
    assert (report["sequences"], report["pairs"]) == (5, 6)
    assert report["sequence_error_rate"] + report["sequence_accuracy"] == 100
    assert [(group["shortest"], group["longest"]) for group in report["by_length"]] == [(0, 1), (2, 2), (3, 60)]
    assert (report["split"], report["max_source_tokens"]) == (0, 500)
    assert report["signatures"]["symbols"].startswith("nrefs:var|")


def test_evaluate_summaries_and_the_lead(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    test = hostile_pairs(workplace / "summaries.jsonl")
    arguments = ("evaluate", workplace / "model", test, "--metric", "summary", "--beam", "1")
    assert dragoman(monkeypatch, *arguments, "--against", workplace / "other") == 0
    output = capfdbinary.readouterr().out.decode()
    # The models' target language is German.
    for expected in ("ROUGE-L", "(lead)", "tok:intl|", "the mean length of the references", "perplexity"):
        assert expected in output
    assert output.count("paired bootstrap: 5 sentences") == 2
    assert dragoman(monkeypatch, *arguments, "--json") == 0
    report = json.loads(capfdbinary.readouterr().out)
    assert {"precision", "recall", "f1"} == set(report["rouge2"]) == set(report["lead"]["rougeL"])
    assert (report["summaries"], report["pairs"], report["lead_words"]) == (5, 6, 11)
    assert len(report["against_lead"]["comparisons"]) == 6


def test_evaluate_prints_token_statistics(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    def steps(self: Transformer, source: Tensor, real: Tensor, *target: Tensor) -> dict[str, Tensor]:
        # [B, S] -> [N]
        return {"encoder steps": 1 + (source == EOS)[real].float()}

    monkeypatch.setattr(Transformer, "token_statistics", steps)
    arguments = ("evaluate", workplace / "model", workplace / "test.tsv", "--beam", "1")
    assert dragoman(monkeypatch, *arguments) == 0
    assert "   mean over tokens; maximum 2\n" in capfdbinary.readouterr().out.decode()
    assert dragoman(monkeypatch, *arguments, "--json") == 0
    statistics = json.loads(capfdbinary.readouterr().out)["token_statistics"]
    assert statistics["encoder steps"]["maximum"] == 2
    assert 1 < statistics["encoder steps"]["mean"] < 2


def test_max_source_tokens_sets_the_limit_of_segments(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (workplace / "long.txt").write_text("nine ten eleven " * 12 + "\n")
    arguments = ("translate", workplace / "model", workplace / "long.txt", "--json", "--beam", "1")
    assert dragoman(monkeypatch, *arguments) == 0
    output, errors = capfdbinary.readouterr()
    assert json.loads(output)["segments"] > 1
    assert b"--max-source-tokens" in errors
    assert dragoman(monkeypatch, *arguments, "--max-source-tokens", "300") == 0
    output, errors = capfdbinary.readouterr()
    assert json.loads(output)["segments"] == 1
    assert b"split" not in errors
    assert dragoman(monkeypatch, *arguments, "--max-source-tokens", "0") == 2
    assert b"max_source_tokens must be at least 1" in capfdbinary.readouterr().err


def test_a_quantized_model_is_evaluated(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = workplace / "quantized"
    assert dragoman(monkeypatch, "quantize", workplace / "model", "--out", small) == 0
    assert "MB instead of" in capsys.readouterr().out
    assert not (small / "run").exists()
    for engine in ("auto", "torch"):
        assert dragoman(monkeypatch, "evaluate", small, workplace / "test.tsv", "--engine", engine) == 0
        assert "BLEU" in capsys.readouterr().out
    assert dragoman(monkeypatch, "quantize", workplace / "model", "--out", small) == 2
    assert "exists already" in capsys.readouterr().err


def test_a_shortlist_is_learned_and_used(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = workplace / "other"
    (workplace / "lines.txt").write_text("seven hundred one\n\nthree\n")
    assert dragoman(monkeypatch, "translate", model, workplace / "lines.txt", "--shortlist") == 2
    assert "no shortlist" in capsys.readouterr().err
    # The lexicon of a line of a megabyte would need terabytes of memory.
    (workplace / "long.tsv").write_text("nine " * 200_000 + "\t" + "neun " * 200_000 + "\n\tnichts\n")
    assert dragoman(monkeypatch, "shortlist", model, workplace / "long.tsv") == 2
    assert "no pairs to learn from" in capsys.readouterr().err
    assert dragoman(monkeypatch, "shortlist", model, workplace / "train.tsv", workplace / "long.tsv") == 0
    learned = capsys.readouterr().out
    assert re.search(r"^left out 1 pairs longer than any in training \([\d,]+ subwords\)$", learned, re.MULTILINE)
    assert "for every sentence" in learned
    assert dragoman(monkeypatch, "translate", model, workplace / "lines.txt", "--shortlist") == 0
    assert capsys.readouterr().out.count("\n") == 3


def test_a_corpus_is_distilled(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = workplace / "distilled.jsonl"
    assert dragoman(monkeypatch, "distill", workplace / "model", workplace / "test.tsv", "--out", out) == 0
    pairs = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    sources = [line.split("\t")[0] for line in (workplace / "test.tsv").read_text(encoding="utf-8").splitlines()]
    assert {pair["source"] for pair in pairs} <= set(sources)
    assert f"{len(pairs)} pairs; {len(sources) - len(pairs)} sources" in capsys.readouterr().out
    assert dragoman(monkeypatch, "corpus", "stats", out) == 0
    assert dragoman(monkeypatch, "distill", workplace / "model", workplace / "test.tsv", "--out", "x.tsv") == 2


def test_doctor_prints_the_selected_engine(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert dragoman(monkeypatch, "doctor") == 0
    selection = select_engine()
    expected = "torch on" if selection.build is None else selection.build.instructions
    assert expected in capsys.readouterr().out


def test_translate_with_an_ensemble(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (workplace / "one.txt").write_text("five\n")
    both = ("translate", workplace / "model", workplace / "one.txt", "--ensemble", workplace / "other")
    assert dragoman(monkeypatch, *both) == 0
    assert capfdbinary.readouterr().out.count(b"\n") == 1


def test_corpus_clean_and_stats(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (workplace / "dirty.tsv").write_text("a dog\tein Hund\na dog\tein Hund\n \tleer\n")
    assert dragoman(monkeypatch, "corpus", "clean", workplace / "dirty.tsv") == 0
    output, errors = capfdbinary.readouterr()
    assert output == b"a dog\tein Hund\n"
    assert b"3 pairs read, 1 kept, 2 dropped" in errors
    assert dragoman(monkeypatch, "corpus", "stats", workplace / "dirty.tsv") == 0
    assert b"3" in capfdbinary.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["translate", "no-such-model"], "no-such-model is not a model directory"),
        (["evaluate", "{}/model", "missing.tsv"], "missing.tsv"),
        (["evaluate", "{}/model", "{}/test.tsv", "--against", "{}/nowhere"], "nowhere is not a model directory"),
        (["evaluate", "{}/model", "{}/test.tsv", "--length-bounds", "4"], "requires --metric symbols"),
        (["evaluate", "{}/model", "{}/test.tsv", "--metric", "symbols", "--length-bounds", "4,x"], "whole numbers"),
        (
            ["evaluate", "{}/model", "{}/test.tsv", "--metric", "symbols", "--length-bounds", "4,4"],
            "must be increasing",
        ),
        (["train", "x.docx", "--out", "{}/m"], "x.docx"),
        (["train", "{}/train.tsv", "--out", "{}/m", "--set", "training.stpes=3"], "training.steps"),
        (["train", "{}/train.tsv", "--out", "{}/m", "--set", "model.dropuot=0.1"], "dropout"),
        (["train", "{}/train.tsv", "--out", "{}/m", "--set", "batching.batch_tokens=abc"], "batching.batch_tokens"),
        (["train", "{}/train.tsv", "--out", "{}/m", "--set", "training=5"], "training"),
        (["train", "{}/train.tsv", "--out", "{}/m", "--set", "model.heads=3"], "heads"),
        (
            ["train", "{}/train.tsv", "--out", "{}/m", "--minutes", "1", "--set", "training.steps=5"],
            "exactly one of steps and minutes",
        ),
        (["train", "{}/train.tsv", "--out", "{}/train.tsv"], "another --out"),
        (["corpus", "fetch", "nothing", "--pair", "en-de"], "home-assistant"),
        (["translate", "{}/model", "{}/test.tsv", "--beam", "0"], "beam"),
        (["translate", "{}/model", "{}/test.tsv", "--device", "abacus"], "abacus"),
    ],
)
def test_errors_are_explained_without_a_traceback(
    workplace: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
    arguments: list[str],
    message: str,
) -> None:
    assert dragoman(monkeypatch, *(argument.format(workplace) for argument in arguments)) == 2
    errors = capfdbinary.readouterr().err.decode()
    assert message in errors
    assert "Traceback" not in errors


def test_ctrl_c_saves_a_checkpoint_and_the_same_command_resumes(workplace: Path) -> None:
    command = dragoman_process("train", workplace / "train.tsv", "--validation", workplace / "valid.tsv")
    command += ["--out", str(workplace / "stopped"), "--preset", "tiny", *SETTINGS, "--set=training.steps=100000"]
    log = workplace / "stopped/run/log.jsonl"
    with subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True) as process:
        while not log.exists():
            assert process.poll() is None, process.communicate()[1].decode()
            time.sleep(0.1)
        # A terminal sends the signal to the whole process group.
        os.killpg(process.pid, signal.SIGINT)
        errors = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 128 + signal.SIGINT
    assert "repeat the command to resume" in errors
    # The checkpoint before the first update, and the last one.
    _, checkpoint = sorted((workplace / "stopped/run/checkpoints").glob("step-*"))
    assert load_checkpoint(checkpoint).state["position"]["step"] >= 10


def test_a_closed_output_pipe_is_no_error(workplace: Path) -> None:
    (workplace / "many.txt").write_text("one\n" * 5000)
    command = [sys.executable, "-m", "dragoman"]
    command += ["translate", str(workplace / "model"), str(workplace / "many.txt"), "--beam", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().endswith(b"\n")
        process.stdout.close()
        errors = process.stderr.read().decode()
        assert process.wait(timeout=120) == 0, errors
    assert "Traceback" not in errors
    assert "Broken pipe" not in errors
