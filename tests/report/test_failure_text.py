"""The text of findings."""

from pytest_torch_compile.findings import Finding
from pytest_torch_compile.report.failure_text import MEASURED_AGAINST, finding_texts

LIMIT = f"{MEASURED_AGAINST} an eager fp64 run"


def numerics(call, values, hint="look for a bug"):
    return Finding("numerics", "output differs", evidence=f"{values}\n{LIMIT}", hint=hint, calls=(call,))


def test_a_fix_and_the_rule_of_the_limit_are_shown_once():
    first, second, other = finding_texts(
        [numerics(1, "eager 1"), numerics(2, "eager 1"), numerics(3, "eager 2", "other")]
    )
    assert LIMIT in first and "fix: look for a bug" in first
    # The values are shown again, although they are the same.
    assert "eager 1" in second and LIMIT not in second and "fix: see finding 1" in second
    assert "eager 2" in other and "fix: other" in other


def test_findings_without_a_fix_refer_to_no_other():
    assert all("fix:" not in text for text in finding_texts([numerics(1, "a", ""), numerics(2, "b", "")]))
