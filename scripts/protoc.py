"""The contract's compiler, for the stubs of every language."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"

Files = dict[Path, bytes]


def contract() -> list[Path]:
    """The protos of the contract, by their path under proto/."""
    return sorted(path.relative_to(PROTO) for path in (PROTO / "rota").rglob("*.proto"))


def protoc(vendor: Path, outputs: list[str], protos: list[Path]) -> None:
    """Compiles against the google protos in `vendor`. Raises SystemExit when that fails."""
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTO}", f"-I{vendor}", *outputs]
    done = subprocess.run([*command, *(path.as_posix() for path in protos)], check=False)
    if done.returncode:
        raise SystemExit(done.returncode)


def read(folder: Path) -> Files:
    """What is in a folder, by path."""
    paths = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder): path.read_bytes() for path in paths}
