#!/usr/bin/env python3
"""Counts test cases in a JUnit report of ctest: "N passed, N failed, N skipped". Exits with 1 unless all went well.

A doctest program is one test to ctest but contains many cases, so the script counts the program's own summary. A program that
fails without a failed case (a crash, a leak found at exit, a timeout) counts as one failure. Each test PROGRAM/PART runs some
cases of one program and reports the others as skipped; a case counts as skipped only if no part ran it.
"""
import collections
import re
import sys
import xml.etree.ElementTree

DOCTEST = re.compile(r"^\[doctest\] test cases:\s*(\d+)\s*\|\s*(\d+) passed\s*\|\s*(\d+) failed\s*\|\s*(\d+) skipped",
                     re.MULTILINE)


def count(case):
    """(passed, failed, skipped) of one test of ctest."""
    summaries = DOCTEST.findall(case.findtext("system-out") or "")
    passed, failed, skipped = (sum(int(summary[i]) for summary in summaries) for i in (1, 2, 3))
    status = case.get("status")
    if status == "run":
        return (passed, failed, skipped) if summaries else (1, 0, 0)
    if status == "fail":
        return passed, max(failed, 1), skipped
    if status in ("notrun", "disabled"):
        # ctest reports "notrun" both for a test that skipped itself and for a missing program.
        reason = case.find("skipped")
        message = "" if reason is None else reason.get("message", "")
        # A doctest program that skips itself prints its number of cases.
        return (0, 0, max(skipped, 1)) if status == "disabled" or message.startswith("SKIP_") else (0, 1, 0)
    raise ValueError(f"unknown test status '{status}'")


def together(parts):
    """The counts of a program from those of its parts, each of which counts all cases of the program."""
    passed, failed = (sum(part[i] for part in parts) for i in (0, 1))
    return passed, failed, max(max(map(sum, parts)) - passed - failed, 0)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: count_tests.py REPORT.xml")
    programs = collections.defaultdict(list)
    for case in xml.etree.ElementTree.parse(sys.argv[1]).getroot().iter("testcase"):
        programs[case.get("name").split("/")[0]].append(count(case))
    passed, failed, skipped = (sum(column) for column in zip((0, 0, 0), *map(together, programs.values())))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(failed > 0 or passed == 0)


if __name__ == "__main__":
    main()
