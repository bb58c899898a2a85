"""The working directory in which the examples of docstrings run."""

from pathlib import Path

from dragoman.models.description import ModelDescription
from dragoman.models.storage import save_model, weights_of
from tests.support.small_language import write_language_model
from tests.support.small_translator import model_config, random_models, tokenizer

# (source, target) of corpus.tsv
PAIRS = (
    ("Turn off the light.", "Schalte das Licht aus."),
    ("Turn on the lamp.", "Schalte die Lampe ein."),
    ("The door is open.", "Die Tür ist offen."),
    ("The window is closed.", "Das Fenster ist geschlossen."),
    ("Please wait.", "Bitte warten."),
    ("The light in the kitchen is on.", "Das Licht in der Küche ist an."),
)


def make_example_directory(directory: Path) -> Path:
    """Write models of random weights, `corpus.tsv`, `test.tsv` and `letter.txt` (three lines).

    The models are `models/mine` (a translation model) and `models/shakespeare` (a language model).
    """
    model = directory / "models/mine"
    model.mkdir(parents=True)
    tokenizer().save(model)
    description = ModelDescription(architecture="transformer", model=model_config(), trained_length=100)
    save_model(model, description, weights_of(random_models(1)[0]))
    write_language_model(directory / "models/shakespeare")
    lines = [f"{source}\t{target}\n" for source, target in PAIRS]
    (directory / "corpus.tsv").write_text("".join(lines), encoding="utf-8")
    (directory / "test.tsv").write_text("".join(lines[:3]), encoding="utf-8")
    (directory / "letter.txt").write_text("".join(f"{source}\n" for source, _ in PAIRS[:3]), encoding="utf-8")
    return directory
