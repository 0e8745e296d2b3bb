"""The stages of a check, in the order in which ``run_check`` calls them.

``check_compile`` describes a check in a ``Check``. Each stage takes this record and the results of earlier stages:

- ``require_usable`` rejects a check that cannot give an answer, such as a limit on a quantity that this machine cannot
  count.
- ``check_ops`` runs opcheck on the custom ops, if the check includes them.
- ``run_both_legs`` runs the calls in eager and in compiled code on the caller's own objects, and compares each call as
  soon as it has run.
- ``_report_with_findings`` starts the report (``reporting.py``), and judges the observations against the budget
  (``verdict.py``).
- ``acceptance.note`` records what the running test would have to accept.
- ``_diagnose`` repeats a failed check with changes, to find the cause, and fixes that work.
- ``conclude`` notifies the listeners, and raises if there are findings.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import replace

from ..diagnose import RepeatableCheck, diagnosis
from ..events import checking
from ..findings import CompileReport
from ..legs.check_record import Check
from ..reproduce.reproduction import add_reproduction
from . import acceptance
from .both_legs import ComparedRun, run_both_legs
from .conclude import conclude
from .describe import located, target_name
from .leg_errors import machine_faults_named
from .opcheck import CheckedOps, check_ops
from .reporting import report_of
from .requirements import require_usable
from .time_limit import chosen_time_limit
from .verdict import findings_of


def run_check(check: Check) -> CompileReport:
    """Carry out all stages of a check, and return its report.

    Raises:
        CompileCheckFailed: If there are findings.
        CompileUsageError: If the check cannot give an answer, or the target raises an exception in eager.
    """
    __tracebackhide__ = True
    require_usable(check)
    ops, began, run, report = CheckedOps(), time.monotonic(), ComparedRun(), None
    name = target_name(check.work.target)
    with chosen_time_limit() as limit, machine_faults_named(), checking(name):
        if check.custom_ops:
            check_ops(check.work, ops)
        with ops.explaining() if check.custom_ops else nullcontext():
            run = run_both_legs(check)
            report = _report_with_findings(check, run)
    # The context managers suppress two exceptions: the end of the time limit, and the exception of an eager run that
    # fails in a custom op that has a finding.
    if report is None:
        report = report_of(check, run)
        report.findings = limit.findings
    if not any(finding.kind == "timeout" for finding in report.findings):
        acceptance.note(run.counted, check.declared)
        # When the diagnosis repeats the check, the compile cache is already filled, so these runs are not warm starts.
        _diagnose(report, RepeatableCheck(replace(check, warm=False), _examine, time.monotonic() - began), ops)
    # Custom ops are tested apart from the compiled run, so repeating the run cannot explain their findings.
    report.findings, report.remarks = report.findings + ops.findings, report.remarks + ops.remarks
    return conclude(report)


def _report_with_findings(check: Check, run: ComparedRun) -> CompileReport:
    """Return the report of a check's runs, with its findings."""
    # Breaks in torch's files get the target's location, so that a budget can accept them by their fingerprint.
    located(run.seen, check.work.target, check.work.calls)
    report = report_of(check, run)
    report.findings = findings_of(check, run)
    return report


def _examine(check: Check) -> CompileReport:
    """Run and judge a check that the diagnosis has changed."""
    return _report_with_findings(check, run_both_legs(check))


def _diagnose(report: CompileReport, remake: RepeatableCheck, ops: CheckedOps) -> None:
    """Add the cause and tried fixes of a failure to the report, and write a script that reproduces the failure if the
    user asked for one.
    """
    with chosen_time_limit() as limit:
        report.diagnosis = diagnosis(report, remake)
        if report.findings or ops.findings:
            add_reproduction(report, remake)
    report.remarks += [f"the diagnosis {finding.message}" for finding in limit.findings]
