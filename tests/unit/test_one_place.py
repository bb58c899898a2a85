"""The most frequent extensions need few files and one line of a table: each is made here in a copy of the package.

CONTRIBUTING.md, "Adding something", describes the same steps. An import of the new file counts as part of its line.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dragoman
from tests.support.number_words import split_numbers
from tests.support.paths import REPOSITORY
from tests.support.runs import write_tsv

PACKAGE = Path(dragoman.__file__).parent


class Scratch:
    """A copy of the package that can be extended and run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for source, name in ((PACKAGE, "dragoman"), (REPOSITORY / "tests", "tests")):
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))

    def add(self, path: str, text: str) -> None:
        """Write a new file in the package, or in the tests beside it."""
        file = self.folder / "dragoman" / path
        assert not file.exists()
        file.write_text(text)

    def add_line(self, path: str, line: str, *, after: str) -> None:
        """Add a line to a file after the only occurrence of the text `after`."""
        self.replace(path, after, f"{after}\n{line}")

    def replace(self, path: str, old: str, new: str) -> None:
        """Replace the only occurrence of the text `old` in a file."""
        file = self.folder / "dragoman" / path
        text = file.read_text(encoding="utf-8")
        assert text.count(old) == 1, (path, old)
        file.write_text(text.replace(old, new), encoding="utf-8")

    def run(self, *arguments: str | Path) -> str:
        """Run the command line of the copy; return its standard output."""
        return self.python("-m", "dragoman", *arguments).stdout

    def train(self, *settings: str) -> tuple[Path, str]:
        """Train on a few number words for four updates; return the model directory and the output of the command."""
        training, validation, _ = split_numbers()
        corpora = [
            write_tsv(self.folder / "train.tsv", training[:200]),
            write_tsv(self.folder / "v.tsv", validation[:8]),
        ]
        out = self.folder / "model"
        options = ["preset=tiny", "training.steps=4", "training.validations=2", "tokenizer.vocabulary_size=400"]
        done = self.python(
            *("-m", "dragoman", "train", corpora[0], "--validation", corpora[1], "--out", out),
            *(f"--set={setting}" for setting in (*options, *settings)),
        )
        return out, done.stderr + done.stdout

    def python(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run Python so that it imports the copy instead of the package."""
        environment = os.environ | {"PYTHONPATH": str(self.folder), "COLUMNS": "200"}
        command = [sys.executable, *map(str, arguments)]
        done = subprocess.run(command, env=environment, cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    """A copy of the package."""
    return Scratch(tmp_path)


GREET = '''
"""dragoman greet"""

from dataclasses import dataclass
from typing import ClassVar

from tyro.conf import Positional

from dragoman.cli.examples import Example


@dataclass(frozen=True, kw_only=True)
class Greet:
    """Say hello to somebody."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = (Example("Greet", "dragoman greet world"),)

    whom: Positional[str]
    """Whom to greet."""
    loudly: bool = False
    """In capitals."""

    def run(self) -> None:
        """Print a greeting."""
        text = f"hello {self.whom}"
        print(text.upper() if self.loudly else text)
'''


def test_a_verb_is_a_file_and_a_line_of_the_table(scratch: Scratch) -> None:
    scratch.add("cli/greet.py", GREET)
    scratch.add_line("cli/__init__.py", '    "greet": Greet,', after='    "doctor": Doctor,')
    # The table contains the class, which is imported above it.
    scratch.add_line(
        "cli/__init__.py",
        "from dragoman.cli.greet import Greet",
        after="from dragoman.cli.evaluate import Evaluate, Score",
    )
    assert scratch.run("greet", "world", "--loudly") == "HELLO WORLD\n"
    assert "Say hello to somebody." in scratch.run("--help")
    assert scratch.run("greet", "--help").endswith("Examples:\n  # Greet\n  dragoman greet world\n")


LENGTHS = '''
"""The total length of the outputs."""

from dataclasses import asdict, dataclass

from dragoman.evaluation.task import Task


@dataclass(frozen=True)
class LengthMetrics:
    """Number of characters in all outputs."""

    characters: int

    def rows(self):
        return [("characters", str(self.characters), "of all outputs")]

    def details(self):
        return ""

    def to_json(self):
        return asdict(self)


class Lengths(Task):
    """Texts of any kind."""

    def evaluate(self, outputs, name):
        return LengthMetrics(sum(map(len, outputs)))

    def compare(self, baseline, name, outputs):
        raise NotImplementedError
'''


def test_an_evaluation_task_is_a_file_and_a_line_of_the_table(scratch: Scratch) -> None:
    scratch.add("evaluation/lengths.py", LENGTHS)
    scratch.add_line("evaluation/tasks.py", '    "lengths": Lengths,', after='    "summary": Summaries,')
    scratch.add_line(
        "evaluation/tasks.py",
        "from dragoman.evaluation.lengths import Lengths",
        after="from dragoman.errors import SettingsError",
    )
    assert "--metric {translation,symbols,summary,lengths}" in scratch.run("evaluate", "--help")


def test_a_study_is_a_line_of_the_table(scratch: Scratch) -> None:
    study = '    "widths": Study(question="How wide?", variants=(Variant(name="64", model={"d_model": 64}),)),'
    scratch.add_line("comparison/studies.py", study, after="STUDIES: dict[str, Study] = {")
    assert "--study {widths,architecture," in scratch.run("compare", "--help")


def test_a_default_of_the_search_is_defined_once(scratch: Scratch) -> None:
    scratch.replace("search/config.py", "    beam: int = 4", "    beam: int = 7")
    for verb in ("translate", "evaluate"):
        assert "(default: 7)" in next(line for line in scratch.run(verb, "--help").splitlines() if "--beam" in line)


WORDS = '    "words": lambda outputs: sum(len(text.split()) for text in outputs.translations) / 8,'
WORDS_OF_THE_TABLE = """
        Metric(name="words", label="words a line", format=".2f", higher_is_better=True, width=12),
"""


def test_a_metric_is_a_function_and_a_line_of_the_table(scratch: Scratch) -> None:
    scratch.add_line("run/validator.py", WORDS, after="METRIC_FUNCTIONS: Mapping[str, Callable[[Outputs], float]] = {")
    scratch.add_line("training/metrics.py", WORDS_OF_THE_TABLE, after="        LOSS,")
    out, shown = scratch.train("training.best_by=words", "training.tensorboard=true")
    log = [json.loads(line) for line in (out / "run" / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    measured = [event["words"] for event in log if event["event"] == "validation"]
    assert len(measured) == 2
    metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["validation"]["words"] == max(measured)
    assert f"words a line {max(measured):.2f}" in (out / "README.md").read_text(encoding="utf-8")
    assert any(line.split()[:1] == ["update"] and "words a line" in line for line in shown.splitlines())
    assert any(
        line.startswith("best at") and f"words a line {max(measured):.2f}" in line for line in shown.splitlines()
    )
    assert b"validation/words" in next((out / "run" / "tensorboard").iterdir()).read_bytes()


SGD = '''
"""Gradient descent."""

import torch
from torch import nn

from dragoman.device import Precision
from dragoman.training.optimizers.parts import Optimizers, OptimizerSettings, Part


def build(model: nn.Module, settings: OptimizerSettings, precision: Precision) -> Optimizers:
    """Return gradient descent for all parameters."""
    return Optimizers((Part("sgd", torch.optim.SGD(model.parameters(), lr=0.0)),))
'''


def test_an_optimizer_is_a_file_and_a_line_of_the_table(scratch: Scratch) -> None:
    scratch.add("training/optimizers/sgd.py", SGD)
    scratch.add_line("training/optimizers/table.py", '    "sgd": sgd.build,', after='    "muon": muon.build,')
    scratch.replace("training/optimizers/table.py", "import adam, muon", "import adam, muon, sgd")
    out, _ = scratch.train("training.optimizer=sgd")
    # Its state is in the checkpoints, in a file of that name.
    assert (out / "run" / "checkpoints" / "step-00000004" / "sgd.safetensors").exists()


BAG_CONFIG = '''
"""Settings and presets of a bag-of-words model."""

from dataclasses import dataclass

from dragoman.models.config import TiedEmbeddings
from dragoman.models.config.checks import check_sizes, check_probabilities, check_tied_embeddings
from dragoman.models.shapes import linear, vocabulary, within


@dataclass(frozen=True, kw_only=True)
class BagConfig:
    """A model that reads the source as a bag of words."""

    source_vocabulary: int
    target_vocabulary: int
    d_model: int = 512
    dropout: float = 0.1
    tied_embeddings: TiedEmbeddings = "three-way"

    def __post_init__(self) -> None:
        check_sizes(self, ("source_vocabulary", "target_vocabulary", "d_model"))
        check_probabilities(self, ("dropout",))
        check_tied_embeddings(self)

    def shape(self) -> str:
        """Return the sizes as a short text."""
        return f"d_model {self.d_model}"

    def tensors(self):
        """Yield every tensor of the model."""
        yield from vocabulary(self.source_vocabulary, self.target_vocabulary, self.d_model, self.tied_embeddings)
        yield from within("decoder", linear(self.d_model, self.d_model, bias=True))


PRESETS = {"tiny": {"d_model": 32}}
'''

BAG = '''
"""A bag-of-words model: each target token is predicted from the previous one and the mean of the source embeddings."""

from dataclasses import dataclass

from torch import Tensor, nn

from dragoman.models.config.bag import BagConfig
from dragoman.models.embedding import Embedding, vocabulary_matrices
from dragoman.models.encoder_decoder import EncoderDecoder
from dragoman.models.initialisation import initialise, unit_after_scaling, xavier
from dragoman.models.seq2seq import Decoded, Memory
from dragoman.models.state import DecoderState
from dragoman.packing import Layout


@dataclass(frozen=True)
class BagState(DecoderState):
    """Mean of the source embeddings [B, 1, D]."""

    mean: Tensor

    def reorder(self, rows: Tensor) -> "BagState":
        return BagState(self.mean[rows])


class Bag(EncoderDecoder[nn.Identity, nn.Linear, Memory]):
    """Embeddings, one linear layer and the output projection."""

    def encode_rows(self, source: Tensor, layout: Layout, first: int = 0) -> Memory:
        return Memory(layout.rows(self.source_embedding(source, first)), layout)

    def decode_rows(self, target: Tensor, layout: Layout, memory: Memory, first: int = 0) -> Decoded:
        x = self.target_embedding(target, first) + mean(memory)
        rows = self.decoder(layout.rows(x)).tanh()
        return Decoded(rows, layout, rows.new_zeros(()))

    def start(self, memory: Memory) -> BagState:
        return BagState(mean(memory))

    def step(self, token: Tensor, state: DecoderState) -> tuple[Tensor, BagState]:
        assert isinstance(state, BagState)
        return self.project(self.decoder(self.embed_token(token) + state.mean).tanh().squeeze(1)), state


def mean(memory: Memory) -> Tensor:
    real = memory.mask.unsqueeze(2).to(memory.states.dtype)
    return (memory.states * real).sum(1, keepdim=True) / real.sum(1, keepdim=True).clamp(min=1)


def build_bag(config: BagConfig) -> Bag:
    source, target, output = vocabulary_matrices(
        config.source_vocabulary, config.target_vocabulary, config.d_model, config.tied_embeddings
    )
    model = Bag(
        Embedding(source, None, config.dropout),
        Embedding(target, None, config.dropout),
        nn.Identity(),
        nn.Linear(config.d_model, config.d_model),
        output,
    )
    initialise(model, {nn.Linear: xavier, nn.Embedding: unit_after_scaling}, output_std=config.d_model**-0.5)
    return model
'''

BAG_VARIANTS = '''
"""Variants of the bag-of-words model."""

from dragoman.models.config.bag import BagConfig
from tests.support.variants.sizes import V

VARIANTS = {"small": BagConfig(source_vocabulary=V, target_vocabulary=V, d_model=12)}
'''


def test_an_architecture_is_four_files(scratch: Scratch) -> None:
    scratch.add("models/config/bag.py", BAG_CONFIG)
    scratch.add("models/bag.py", BAG)
    scratch.add("../tests/support/variants/bag.py", BAG_VARIANTS)
    scratch.add_line(
        "models/registry.py",
        '    ("bag", "seq2seq", bag.BagConfig, bag.PRESETS),',
        after='    ("universal", "seq2seq", universal.UniversalConfig, universal.PRESETS),',
    )
    scratch.replace(
        "models/registry.py", "    TextModelConfig,\n    classifier,", "    TextModelConfig,\n    bag,\n    classifier,"
    )
    contract = "tests/unit/models/test_contract.py"
    held = scratch.python("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", contract, "-k", "bag")
    assert " passed" in held.stdout
    assert "recurrent,convolutional,universal,bag," in scratch.run("train", "--help")
    out, _ = scratch.train("architecture=bag")
    (scratch.folder / "text").write_text("one\ntwo hundred\n", encoding="utf-8")
    assert len(scratch.run("translate", out, scratch.folder / "text").splitlines()) == 2
