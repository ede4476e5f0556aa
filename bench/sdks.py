"""The workers of the SDKs in other languages, built from this checkout."""

import subprocess
import sys
from pathlib import Path

import yaml

from bench.errors import BenchError
from bench.stand import Sdk

ROOT = Path(__file__).parents[1]


def built(language: str) -> Sdk:
    """The program that the mixed fleet of the tests runs too. BenchError when it does not build."""
    given = yaml.safe_load((ROOT / "workers/conformance/languages.yaml").read_text())[language]
    for command in given.get("build", ()):
        try:
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        except FileNotFoundError:
            raise BenchError(f"expected {command[0]} on the PATH to build the {language} worker, found none") from None
        if done.returncode:
            raise BenchError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return Sdk([part.replace("{python}", sys.executable) for part in given["fleet"]], ROOT)
