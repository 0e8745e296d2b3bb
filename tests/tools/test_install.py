"""Until the first release the documentation installs from the repository, from then on by name."""

from __future__ import annotations

import pytest

from tools import install


@pytest.mark.parametrize(
    ("released", "line"),
    [
        (True, 'python -m pip install "pytest-torch-compile[cache]" s3fs'),
        (False, f'python -m pip install "pytest-torch-compile[cache] @ git+{install.REPOSITORY}" s3fs'),
    ],
)
def test_extras_and_other_packages_are_part_of_the_command(released, line):
    assert f"$ {line}\n" in install.command("cache", "s3fs", released=released)


def test_the_readme_installs_from_a_clone_until_there_is_a_release():
    assert "$ python -m pip install .\n" in install.section(released=False)
    assert install.section(released=True).startswith(install.command(released=True))
    assert "git+" not in install.section(released=True)
