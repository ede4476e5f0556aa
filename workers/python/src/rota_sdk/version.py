"""The release of the SDK and the protocol that it speaks."""

from typing import Final

VERSION: Final = "0.1.0"
SDK: Final = f"rota-python/{VERSION}"
PROTOCOL: Final = 1
