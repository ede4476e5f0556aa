"""Stubs for workers/typescript, by the plugin that its package-lock.json pins."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from protoc import ROOT, Files, contract, protoc, read

PACKAGE = ROOT / "workers" / "typescript"
FOLDER = PACKAGE / "src" / "gen"
PLUGIN = PACKAGE / "node_modules" / ".bin" / "protoc-gen-es"


def missing() -> str:
    """What is not here that this needs; empty: nothing."""
    return "" if shutil.which("npm") else "npm"


def stubs(vendor: Path) -> Files:
    """The stubs, by their path under FOLDER. Peers are the server's own matter."""
    if not PLUGIN.is_file():
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--silent"], cwd=PACKAGE, check=True)
    google = sorted(path.relative_to(vendor) for path in (vendor / "google").rglob("*.proto"))
    with tempfile.TemporaryDirectory() as folder:
        protoc(
            vendor,
            [
                f"--plugin=protoc-gen-es={PLUGIN}",
                f"--es_out={folder}",
                "--es_opt=target=ts,import_extension=js",
            ],
            [*(path for path in contract() if "peer" not in path.parts), *google],
        )
        return read(Path(folder))
