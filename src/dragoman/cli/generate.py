"""dragoman generate"""

import json
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from tyro.conf import Positional, arg

from dragoman.cli.bars import bar
from dragoman.cli.examples import Example
from dragoman.cli.options import (
    Count,
    Flag,
    GenerationEngineOptions,
    ModelDirectory,
    Number,
    OptionalCount,
    OptionalFile,
    TokenSamplingOptions,
    changed_options,
)
from dragoman.errors import CorpusError, SettingsError, reason_of
from dragoman.printing import print_message, printable_text
from dragoman.search.config import ContinuationConfig

if TYPE_CHECKING:
    from dragoman.generation.generator import Generator
    from dragoman.generation.results import Generation

# Largest prompt in bytes.
LONGEST_PROMPT = 64 * 2**20


@dataclass(frozen=True, kw_only=True)
class GenerateSamplingOptions(TokenSamplingOptions):
    """Draw tokens at random from the model's distribution."""

    repetition_penalty: Number = ContinuationConfig.repetition_penalty
    """Penalty of tokens that occur in the text so far (Keskar et al. 2019): 1.2 avoids repetition, 1 is none."""


@dataclass(frozen=True, kw_only=True)
class GenerateSearchOptions:
    """Search for the most probable text instead of drawing tokens at random."""

    beam: OptionalCount = None
    """Beam size, at most 200; 1 takes the most probable token at each position."""
    length_penalty: Number = ContinuationConfig.length_penalty
    """Length penalty α of beam search (Wu et al. 2016); higher values favour longer texts."""


@dataclass(frozen=True, kw_only=True)
class GenerateOutputOptions:
    """Choose how much is written."""

    max_tokens: Count = ContinuationConfig.max_tokens
    """Largest number of tokens of a text, without the prompt."""
    stop: Annotated[tuple[str, ...], arg(metavar="TEXT")] = ()
    """Text that ends the output, which does not contain it; may be given several times."""
    samples: Count = 1
    """Number of texts: samples, or the best outputs of beam search."""
    json: Flag = False
    """Print one JSON object per text: text, number of tokens, log-probability, and why it ends."""


@dataclass(frozen=True, kw_only=True)
class Generate:
    """Continue a text with a language model."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = (
        Example("Continue a line", "dragoman generate models/shakespeare 'ROMEO:' --temperature 0.8"),
        Example(
            "Write three texts that follow a file, up to an empty line",
            "dragoman generate models/shakespeare --file scene.txt --samples 3 --stop $'\\n\\n'",
        ),
    )

    model: ModelDirectory
    prompt: Annotated[Positional[str | None], arg(metavar="[PROMPT]", help_behavior_hint="")] = None
    """Beginning of the text; by default what standard input contains, unless it is a terminal."""
    file: OptionalFile = None
    """Read the prompt from this file instead; nothing is removed from its end."""
    output: GenerateOutputOptions = GenerateOutputOptions()
    sampling: GenerateSamplingOptions = GenerateSamplingOptions()
    search: GenerateSearchOptions = GenerateSearchOptions()
    engine: GenerationEngineOptions = GenerationEngineOptions()

    def run(self) -> None:
        """Generate, and print the text while it is written."""
        from dragoman.generation.generator import Generator
        from dragoman.generation.writing import check_stops

        config = self._config()
        check_stops(self.output.stop)
        prompt = self._prompt()
        generator = Generator.load(
            self.model,
            device=self.engine.device,
            engine=self.engine.engine,
            precision=self.engine.precision,
            threads=self.engine.threads,
            context=self.engine.context,
        )
        if isinstance(prompt, bytes) and prompt.decode(errors="replace").encode() != prompt:
            print_message("the prompt is not valid UTF-8; undecodable bytes were replaced by U+FFFD")
        if self.output.json or config.outputs > 1:
            self._print_complete(generator, prompt, config)
        else:
            self._print_stream(generator, prompt, config)

    def _config(self) -> ContinuationConfig:
        beam, samples = self.search.beam, self.output.samples
        if beam is None:
            if changed := changed_options(self.search):
                raise SettingsError(f"{', '.join(changed)} requires --beam")
        elif changed := [name for name in changed_options(self.sampling) if name != "--repetition-penalty"]:
            raise SettingsError(
                f"{', '.join(changed)} {'is an option' if len(changed) == 1 else 'are options'} of sampling: leave out "
                "--beam to draw tokens at random"
            )
        return ContinuationConfig(
            max_tokens=self.output.max_tokens,
            sampling=self.sampling.sampling(samples if beam is None else 1),
            beam=beam,
            n_best=1 if beam is None else samples,
            length_penalty=self.search.length_penalty,
            repetition_penalty=self.sampling.repetition_penalty,
        )

    def _prompt(self) -> str | bytes:
        if self.file is not None and self.prompt is not None:
            raise SettingsError("give the prompt as an argument or with --file, not both")
        if self.prompt is not None:
            return self.prompt
        if self.file is not None:
            try:
                with self.file.open("rb") as file:
                    prompt = file.read(LONGEST_PROMPT + 1)
            except OSError as error:
                raise CorpusError(f"{self.file} cannot be read: {reason_of(error)}") from error
        else:
            prompt = b"" if sys.stdin.isatty() else sys.stdin.buffer.read(LONGEST_PROMPT + 1)
        if len(prompt) > LONGEST_PROMPT:
            raise CorpusError(f"the prompt has more than {LONGEST_PROMPT:,} bytes; give its end only")
        return prompt

    def _print_stream(self, generator: "Generator", prompt: str | bytes, config: ContinuationConfig) -> None:
        """Print one text while it is written."""
        shown = ""
        with bar(f"generating ({generator.engine})", hidden=sys.stdout.isatty()) as on_progress:
            done = 0
            for piece in generator.stream(prompt, config, stop=self.output.stop):
                done += piece.tokens
                on_progress(done, config.max_tokens)
                if piece.text:
                    _write(piece.text)
                    shown = piece.text
        if not shown.endswith("\n"):
            _write("\n")

    def _print_complete(self, generator: "Generator", prompt: str | bytes, config: ContinuationConfig) -> None:
        """Print texts one after the other, when all are complete."""
        with bar(f"generating ({generator.engine})") as on_progress:
            generations = generator.generate(
                prompt,
                config,
                stop=self.output.stop,
                on_progress=lambda tokens: on_progress(tokens, config.max_tokens),
            )
        for number, generation in enumerate(generations, 1):
            if self.output.json:
                _write(_as_json(generation) + "\n")
            else:
                heading = f"--- {number} of {len(generations)} ---\n"
                _write(heading + generation.text + "\n" * (not generation.text.endswith("\n")))


def _as_json(generation: "Generation") -> str:
    return json.dumps(asdict(generation), ensure_ascii=False)


def _write(text: str) -> None:
    """Write text to standard output at once; on a terminal, control characters are escaped."""
    sys.stdout.buffer.write((printable_text(text) if sys.stdout.isatty() else text).encode())
    sys.stdout.buffer.flush()
