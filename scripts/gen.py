"""Generates the stubs of every language and the OpenAPI document from the contract, and copies the google protos that
the contract imports.

`python scripts/gen.py` writes; `python scripts/gen.py --check` generates into a temporary folder instead,
prints every file of the checkout that differs, is missing or is left over, and exits with 1 if there is one.
The output depends on the protos and on pinned tools. A language whose toolchain is not here is left out, which is said,
and is an error where CI=true.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import sysconfig
import tempfile
from importlib import resources
from pathlib import Path

import gen_go
import gen_java
import gen_openapi
import gen_typescript
from protoc import PROTO, ROOT, Files, contract, protoc, read

VENDOR = PROTO / "vendor"
STUBS = ROOT / "workers" / "python" / "src" / "rota_sdk" / "gen"
PACKAGE = "rota_sdk.gen"

# What the contract imports from googleapis, and what clients need to read the details of an error.
VENDORED = (
    "google/api/annotations.proto",
    "google/api/field_behavior.proto",
    "google/api/http.proto",
    "google/rpc/error_details.proto",
    "google/rpc/status.proto",
)

# protoc names Python modules after proto paths, and `rota` is the server's own package.
_IMPORT = re.compile(r"^from rota\.", re.MULTILINE)
_UNMOVED = re.compile(r"^\s*(?:from|import) rota\b.*", re.MULTILINE)
_SERVICE = re.compile(r"^service ", re.MULTILINE)
_INSTALL = "install requirements/dev.txt"

# Each with its FOLDER, `missing` and `stubs`.
LANGUAGES = (gen_go, gen_java, gen_typescript)


def vendored() -> Files:
    """The google protos, by their path under proto/vendor, from the installed googleapis-common-protos."""
    found: Files = {}
    for name in VENDORED:
        package, _, file = name.rpartition("/")
        source = resources.files(package.replace("/", ".")) / file
        if not source.is_file():
            raise SystemExit(f"expected {name} in googleapis-common-protos, found none: {_INSTALL}")
        found[Path(name)] = source.read_bytes()
    return found


def stubs(vendor: Path) -> Files:
    """The stubs, by their path under STUBS, generated against the google protos in `vendor`."""
    protos = contract()
    with_service = [path for path in protos if _SERVICE.search((PROTO / path).read_text())]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        protoc(vendor, [f"--python_out={out}", f"--pyi_out={out}"], protos)
        # Only files with a service get a _grpc module: for the others it would be empty.
        plugin = _mypy_grpc_plugin()
        # Concrete servicers: a server may leave a call out, and gRPC then answers UNIMPLEMENTED.
        protoc(
            vendor,
            [
                f"--grpc_python_out={out}",
                f"--plugin=protoc-gen-mypy_grpc={plugin}",
                f"--mypy_grpc_out=quiet,generate_concrete_servicer_stubs:{out}",
            ],
            with_service,
        )
        files = {path.relative_to(out): _move(path) for path in sorted(out.rglob("*")) if path.is_file()}
    packages = {parent for path in files for parent in path.parents}
    return files | {package / "__init__.py": b"" for package in packages}


def _mypy_grpc_plugin() -> Path:
    for folder in (Path(sys.executable).parent, Path(sysconfig.get_path("scripts"))):
        for name in ("protoc-gen-mypy_grpc", "protoc-gen-mypy_grpc.exe"):
            if (folder / name).is_file():
                return folder / name
    raise SystemExit(f"expected protoc-gen-mypy_grpc beside the interpreter, found none: {_INSTALL}")


def _move(path: Path) -> bytes:
    text = _IMPORT.sub(f"from {PACKAGE}.rota.", path.read_text())
    if left := _UNMOVED.search(text):
        found = left.group().strip()
        raise SystemExit(f"{path.name}: expected no import of the server's package, found {found!r}")
    return text.encode()


def stale(folder: Path, fresh: Files) -> list[Path]:
    """Paths under `folder` that differ from `fresh`, sorted."""
    present = read(folder) if folder.is_dir() else {}
    return sorted(path for path in present.keys() | fresh.keys() if present.get(path) != fresh.get(path))


def _write(folder: Path, fresh: Files) -> None:
    # Unchanged files keep their time, so that nothing is rebuilt for them.
    for path in stale(folder, fresh):
        target = folder / path
        if path in fresh:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(fresh[path])
        else:
            target.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(description="Generates stubs and documents from the contract.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 and list stale files")
    check = parser.parse_args().check
    google = vendored()
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder), google)
        outputs = [(VENDOR, google), (STUBS, stubs(Path(folder)))]
        described = gen_openapi.document(Path(folder))
        left_out = []
        for language in LANGUAGES:
            if tool := language.missing():
                left_out.append(language)
                print(f"LEFT OUT: {language.FOLDER.relative_to(ROOT)}, since there is no {tool} here", file=sys.stderr)
            else:
                outputs.append((language.FOLDER, language.stubs(Path(folder))))
    if left_out and os.environ.get("CI") == "true":
        return 1
    document = gen_openapi.FOLDER / gen_openapi.NAME
    fresh_document = document.is_file() and document.read_bytes() == described[gen_openapi.NAME]
    if not check:
        for target, fresh in outputs:
            _write(target, fresh)
        if not fresh_document:
            document.write_bytes(described[gen_openapi.NAME])
        return 0
    paths = [(target / path).relative_to(ROOT) for target, fresh in outputs for path in stale(target, fresh)]
    if not fresh_document:
        paths.append(document.relative_to(ROOT))
    for path in paths:
        print(f"stale: {path.as_posix()}")
    if paths:
        print("Run `python scripts/gen.py` and commit the result.", file=sys.stderr)
    return 1 if paths else 0


if __name__ == "__main__":
    sys.exit(main())
