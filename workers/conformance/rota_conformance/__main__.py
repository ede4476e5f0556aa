"""`python -m rota_conformance`: runs the cases for the SDKs that are here, and prints a matrix language × case.

--language NAME   only this one, again for more
--case NAME       only cases whose name contains it
--jobs N          cases at a time
--checks          each SDK's own lint and unit tests before its cases
--wrong           workers that are wrong in one way instead: each must fail the case that is about it
--json FILE       the verdicts, for machines
Exit code: 0 when every case passes or fails as listed, 1 otherwise, 2 when a case, the list of languages or a program
is not as it should be. An SDK whose toolchain is not here is left out, which is said, and is an error where CI=true.
"""

import argparse
import json
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from rota_conformance.case import Case, CaseError, Language, load_cases, load_languages
from rota_conformance.run import Run

FOLDER = Path(__file__).parents[1]
ROOT = FOLDER.parents[1]
PASSED, FAILED, KNOWN, UNEXPECTED, NOT_FOR_IT = "pass", "FAIL", "known", "PASSES", "-"


def prepared(language: Language, with_checks: bool) -> Language:
    """With the interpreter filled in. Raises CaseError when its program does not build, or fails its own checks."""
    for command in (*language.build, *(language.checks if with_checks else ())):
        print(f"{language.name}: {' '.join(command)}", flush=True)
        done = subprocess.run([_filled(part) for part in command], cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            raise CaseError(f"{language.name}: {' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    command, fleet = (tuple(_filled(part) for part in parts) for parts in (language.command, language.fleet))
    return replace(language, command=command, fleet=fleet)


def here(languages: Sequence[Language]) -> list[Language]:
    """Those whose tools are on the PATH; says which are not. Raises CaseError for one of them where CI=true."""
    found = []
    for language in languages:
        missing = [tool for tool in language.needs if shutil.which(tool) is None]
        if missing and os.environ.get("CI") == "true":
            raise CaseError(f"{language.name}: expected {missing[0]} on the PATH, found none")
        if missing:
            print(f"LEFT OUT: {language.name}, since there is no {missing[0]} here", flush=True)
        else:
            found.append(language)
    return found


def _filled(part: str) -> str:
    return part.replace("{python}", sys.executable)


def judge(case: Case, language: Language) -> tuple[str, list[str]]:
    """The cell of the matrix, and what is wrong."""
    if not case.features <= language.features:
        return NOT_FOR_IT, []
    told = Run(case, language, ROOT).verdict()
    reason = language.known_failing.get(case.name)
    if reason is None:
        return (FAILED if told else PASSED), told
    return (KNOWN, []) if told else (UNEXPECTED, [f"is listed as failing ({reason}) and passes: take it off the list"])


def run(cases: Sequence[Case], languages: Sequence[Language], jobs: int) -> dict[str, dict[str, tuple[str, list[str]]]]:
    """Verdicts by case and language."""
    table: dict[str, dict[str, tuple[str, list[str]]]] = {case.name: {} for case in cases}
    with ThreadPoolExecutor(jobs) as pool:
        futures = {
            (case.name, language.name): pool.submit(judge, case, language) for language in languages for case in cases
        }
        for (case_name, language_name), future in futures.items():
            table[case_name][language_name] = future.result()
    return table


def show(
    cases: Sequence[Case], languages: Sequence[Language], table: dict[str, dict[str, tuple[str, list[str]]]]
) -> int:
    """Prints the matrix and what failed; how many cells are wrong."""
    width = max(len(case.name) for case in cases)
    print(f"{'case'.ljust(width)}  {'rule'.ljust(5)}  " + "  ".join(each.name.ljust(10) for each in languages))
    for case in cases:
        cells = [table[case.name][each.name][0].ljust(10) for each in languages]
        print(f"{case.name.ljust(width)}  {case.contract.ljust(5)}  " + "  ".join(cells))
    wrong = 0
    for case in cases:
        for language in languages:
            cell, told = table[case.name][language.name]
            if cell in (FAILED, UNEXPECTED):
                wrong += 1
                print(f"\n{language.name}: {case.name}: {case.promise}")
                for words in told:
                    print("  " + words.replace("\n", "\n  "))
    counted = {each.name: sum(table[case.name][each.name][0] == PASSED for case in cases) for each in languages}
    print("\n" + ", ".join(f"{name}: {number} of {len(cases)} pass" for name, number in counted.items()))
    return wrong


def run_wrong(cases: Sequence[Case], jobs: int) -> int:
    """Runs each fault of the wrong worker against the case that must catch it; how many pass, which is one too many."""
    program = FOLDER / "wrong" / "main.py"
    faults = {fault.__name__: case for fault, case in runpy.run_path(str(program))["FAULTS"].items()}
    known = {case.name: case for case in cases}

    def catch(fault: str) -> list[str]:
        language = Language(fault, (sys.executable, str(program), fault), (), (), (), frozenset(), {}, 5.0)
        return Run(known[faults[fault]], language, ROOT).verdict()

    missed = 0
    with ThreadPoolExecutor(jobs) as pool:
        for fault, told in zip(faults, pool.map(catch, faults), strict=True):
            missed += not told
            words = told[0].splitlines()[0] if told else "MISSED"
            print(f"{fault.ljust(40)}  {faults[fault]}: {words[:120]}")
    print(f"\n{len(faults) - missed} of {len(faults)} wrong workers are caught")
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(prog="rota_conformance", description=__doc__.splitlines()[0])
    parser.add_argument("--language", action="append", default=[])
    parser.add_argument("--case", default="")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--checks", action="store_true")
    parser.add_argument("--wrong", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    try:
        cases = [case for case in load_cases(FOLDER / "cases") if given.case in case.name]
        known = load_languages(FOLDER / "languages.yaml")
        for name in given.language:
            if name not in known:
                raise CaseError(f"{name}: expected one of {', '.join(known)}")
        if not cases:
            raise CaseError(f"no case is called {given.case!r}")
        if given.wrong:
            return 1 if run_wrong(cases, given.jobs) else 0
        wanted = [known[name] for name in given.language or known]
        languages = [prepared(language, given.checks) for language in here(wanted)]
    except CaseError as error:
        print(f"rota_conformance: {error}", file=sys.stderr)
        return 2
    table = run(cases, languages, given.jobs)
    wrong = show(cases, languages, table)
    if given.json:
        given.json.write_text(json.dumps(table, indent=1))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
