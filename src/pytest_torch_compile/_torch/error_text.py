"""An exception in a few lines: what it says first, and the lines that belong to it. Neither torch nor pytest."""

from __future__ import annotations

from itertools import dropwhile, pairwise, takewhile

# How g++, clang++ and their linkers begin to say what is wrong; "ld returned 1 exit status" comes last.
_OF_A_CPP_COMPILER = ("undefined reference", "cannot find", "error:")


def error_summary(error: BaseException) -> str:
    """The exception's type and its key sentences.

    These are the first line, the next one where a line ends in a colon, and the list of points (``- ...``) that
    follows: torch names there what its first line only announces. Of what a C++ compiler printed it is the first error.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    belongs = takewhile(lambda pair: pair[0].endswith(":") or pair[1].startswith("- "), pairwise(lines))
    printed = dropwhile(lambda line: line != "Output:", lines)
    wrong = [line for line in printed if any(words in line for words in _OF_A_CPP_COMPILER)]
    return "\n".join([f"{type(error).__name__}: {lines[0]}", *(line for _, line in belongs), *wrong[:1]])
