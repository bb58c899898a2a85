"""Install a wheel into a virtual environment of its own and translate with its engine: a part of `make wheel`."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from tests.support.scratch import ScratchEnvironment  # noqa: E402

PROGRAM = """
import sys
from pathlib import Path
import dragoman
from dragoman import native
from tests.support.native_models import translator_directory

assert Path(dragoman.__file__).is_relative_to(sys.prefix), dragoman.__file__
assert [build.name for build in native.builds()], "no build of the engine runs here"
translator = dragoman.Translator.load(translator_directory(Path(sys.argv[1])), device="cpu", engine="native")
print(translator.engine, "->", repr(translator.translate(["the lamp is on"])[0].text))
"""


def main() -> None:
    """Try the wheel that the command line names."""
    wheel = Path(sys.argv[1]).resolve()
    with TemporaryDirectory() as folder:
        scratch = ScratchEnvironment(Path(folder) / "environment")
        scratch.run(str(scratch.python), "-m", "pip", "install", "--quiet", "--no-deps", str(wheel))
        model = Path(folder) / "model"
        model.mkdir()
        print(scratch.run(str(scratch.python), "-c", PROGRAM, str(model), PYTHONPATH=str(REPOSITORY)), end="")


if __name__ == "__main__":
    main()
