"""Stubs for workers/go, by the plugins that workers/go/tools pins."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from protoc import ROOT, Files, contract, protoc, read

FOLDER = ROOT / "workers" / "go" / "gen"
TOOLS = ROOT / "workers" / "go" / "tools"
PLUGINS = ("google.golang.org/protobuf/cmd/protoc-gen-go", "google.golang.org/grpc/cmd/protoc-gen-go-grpc")
MODULE = "github.com/rota-scheduler/rota/workers/go/gen"


def missing() -> str:
    """What is not here that this needs; empty: nothing."""
    return "" if shutil.which("go") else "go"


def stubs(vendor: Path) -> Files:
    """The stubs, by their path under FOLDER. Peers are the server's own matter."""
    with tempfile.TemporaryDirectory() as folder:
        out, tools = Path(folder) / "out", Path(folder) / "tools"
        out.mkdir()
        subprocess.run(["go", "build", "-o", f"{tools}/", *PLUGINS], cwd=TOOLS, check=True)
        protoc(
            vendor,
            [
                f"--plugin={tools}/protoc-gen-go",
                f"--plugin={tools}/protoc-gen-go-grpc",
                f"--go_out={out}",
                f"--go_opt=module={MODULE}",
                f"--go-grpc_out={out}",
                f"--go-grpc_opt=module={MODULE}",
            ],
            [path for path in contract() if "peer" not in path.parts],
        )
        return read(out)
