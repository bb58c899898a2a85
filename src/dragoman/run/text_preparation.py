"""Preparation of a run on running text: text on disk, a vocabulary, and prepared streams of tokens."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import track

from dragoman.data.text_store import StoredTexts, store_texts
from dragoman.data.texts import Part, find_texts, read_texts
from dragoman.data.token_stream import TokenStream, prepare_stream
from dragoman.run.text_config import TextDataConfig
from dragoman.text.vocabulary import Vocabulary, VocabularyConfig, train_vocabulary
from dragoman.threads import available_cpus

# Names of the directories in run/.
TEXT, VALIDATION_TEXT, TRAINING, VALIDATION = "text", "validation-text", "prepared", "prepared-validation"
DIRECTORIES = (TEXT, VALIDATION_TEXT, TRAINING, VALIDATION)


@dataclass(frozen=True)
class TextSource:
    """Training and validation text, stored in the directory of a run.

    Attributes:
        run: the directory run/.
        data: what is held out.
        validation: True if a validation text was given.
        console: shows the progress.
    """

    run: Path
    data: TextDataConfig
    validation: bool
    console: Console

    @classmethod
    def read(
        cls, corpora: Sequence[str], validation: str | None, data: TextDataConfig, run: Path, console: Console
    ) -> "TextSource":
        """Read the corpora once, and store them.

        Raises:
            CorpusError: for a file that is not text, or if there is no text.
        """
        parts = read_texts(find_texts(corpora), data.documents)
        store_texts(_progress(parts, "reading", console), run / TEXT)
        if validation is not None:
            store_texts(read_texts(find_texts([validation]), data.documents), run / VALIDATION_TEXT)
        return cls(run, data, validation is not None, console)

    @property
    def characters(self) -> int:
        """Number of characters of the text."""
        return self._stored(TEXT).counts.characters

    def learn_vocabulary(self, config: VocabularyConfig) -> Vocabulary:
        """Learn the vocabulary from the training text."""
        return train_vocabulary((part.text for part in self.training()), config)

    def prepare(self, vocabulary: Vocabulary) -> tuple[TokenStream, TokenStream]:
        """Encode the training and the validation text."""
        workers = available_cpus()
        training = prepare_stream(
            _progress(self.training(), "preparing", self.console), vocabulary, self.run / TRAINING, workers=workers
        )
        return training, prepare_stream(self.held_out(), vocabulary, self.run / VALIDATION, workers=workers)

    def training(self) -> Iterator[Part]:
        """Yield the training text."""
        stored = self._stored(TEXT)
        return stored.parts() if self.validation else stored.split(self.data.validation_share).training()

    def held_out(self) -> Iterator[Part]:
        """Yield the validation text."""
        if self.validation:
            return self._stored(VALIDATION_TEXT).parts()
        return self._stored(TEXT).split(self.data.validation_share).validation()

    def _stored(self, name: str) -> StoredTexts:
        return StoredTexts.open(self.run / name)


def _progress(parts: Iterable[Part], description: str, console: Console) -> Iterable[Part]:
    return track(parts, description, console=console, transient=True, disable=not console.is_terminal)
