"""Stubs for workers/java, by the compiler and plugin of the versions in its pom.xml."""

from __future__ import annotations

import platform
import shutil
import subprocess
import tempfile
from importlib import resources
from pathlib import Path
from xml.etree import ElementTree

from protoc import PROTO, ROOT, Files, contract, read

PACKAGE = ROOT / "workers" / "java"
FOLDER = PACKAGE / "src" / "gen" / "java"
POM = "{http://maven.apache.org/POM/4.0.0}"
SYSTEMS = {"Linux": "linux", "Darwin": "osx", "Windows": "windows"}
MACHINES = {"x86_64": "x86_64", "AMD64": "x86_64", "aarch64": "aarch_64", "arm64": "aarch_64"}


def missing() -> str:
    """What is not here that this needs; empty: nothing."""
    return "" if shutil.which("mvn") else "mvn"


def stubs(vendor: Path) -> Files:
    """The stubs, by their path under FOLDER: the public contract and that of workers."""
    properties = ElementTree.parse(PACKAGE / "pom.xml").getroot().find(f"{POM}properties")
    assert properties is not None
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        out.mkdir()
        compiler = _tool("com.google.protobuf:protoc", properties.findtext(f"{POM}protobuf.version"), Path(folder))
        plugin = _tool("io.grpc:protoc-gen-grpc-java", properties.findtext(f"{POM}grpc.version"), Path(folder))
        command = [
            str(compiler),
            f"-I{PROTO}",
            f"-I{vendor}",
            f"-I{resources.files('grpc_tools') / '_proto'}",
            f"--plugin=protoc-gen-grpc-java={plugin}",
            f"--java_out={out}",
            f"--grpc-java_out=@generated=omit:{out}",
            *(path.as_posix() for path in contract() if not {"peer", "admin"} & set(path.parts)),
        ]
        subprocess.run(command, check=True)
        return read(out)


def _tool(artifact: str, version: str | None, folder: Path) -> Path:
    classifier = f"{SYSTEMS[platform.system()]}-{MACHINES[platform.machine()]}"
    done = subprocess.run(
        [
            "mvn",
            "-q",
            "-B",
            "-f",
            str(PACKAGE / "pom.xml"),
            "dependency:copy",
            f"-Dartifact={artifact}:{version}:exe:{classifier}",
            f"-DoutputDirectory={folder}",
        ],
        check=False,
        # Quiet as it is, it writes codes of colour.
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"{artifact}:{version} could not be had:\n{done.stdout}{done.stderr}")
    found = next(folder.glob(f"{artifact.rpartition(':')[2]}-*.exe"))
    found.chmod(0o755)
    return found
