"""A package with tests of its own, and pytest run on it."""

from __future__ import annotations

import sys

import pytest

from tests.plugin.conftest import no_worker, project  # noqa: F401

PACKAGE = "somelib"
# The condition is a string because this file is also read without torch.
COUNTS_RECOMPILE = pytest.mark.skipif(
    "torch.__version__ < '2.7'", reason="torch 2.6 makes a changing number of a module dynamic"
)


@pytest.fixture
def library(project, request):  # noqa: F811
    """Run ordinary tests of a package: its source, its tests, further options."""
    tester = project.tester
    tester.makeini("[pytest]\n")

    def forget():
        for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
            del sys.modules[name]

    def run(package, tests, *options, existing=PACKAGE):
        forget()
        folder = tester.path / PACKAGE
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").write_text(f"import functools\nimport torch\nfrom torch import nn\n\n{package}")
        tester.makepyfile(f"import torch\nimport somelib\n\n{tests}")
        tester.syspathinsert()
        chosen = [f"--compile-existing={existing}"] if existing else []
        return tester.runpytest_inprocess("-p", "no:cacheprovider", *chosen, *options)

    run.tester = tester
    yield run
    forget()


def rows(result):
    """The verdict of each target in the table, by its name."""
    return {
        parts[0].removeprefix(f"{PACKAGE}."): " ".join(parts[1:])
        for line in result.outlines
        if (parts := line.split()) and parts[0].startswith(f"{PACKAGE}.") and "[compile]" not in line
    }
