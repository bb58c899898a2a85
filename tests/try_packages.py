"""Install a wheel, and an sdist with and without a compiler, and use each: a part of `make wheel`.

python tests/try_packages.py WHEEL SDIST
"""

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from tests.support.installed import use  # noqa: E402
from tests.support.scratch import ScratchEnvironment  # noqa: E402


def main() -> None:
    """Try the packages that the command line names."""
    wheel, sdist = (Path(name).resolve() for name in sys.argv[1:])
    for package, compiler in ((wheel, False), (sdist, False), (sdist, True)):
        if compiler and shutil.which("c++") is None:
            print(f"{package.name}, a compiler: not tried, c++ is not installed")
            continue
        with TemporaryDirectory() as folder:
            scratch = ScratchEnvironment(Path(folder))
            scratch.install(str(package), **({} if compiler else scratch.no_compiler))
            printed = use(scratch, "native" if compiler or package == wheel else "torch")
        [translation] = [line for line in printed.splitlines() if line.startswith("translation uses")]
        print(f"{package.name}, {'a' if compiler else 'no'} compiler: {' '.join(translation.split())}", flush=True)


if __name__ == "__main__":
    main()
