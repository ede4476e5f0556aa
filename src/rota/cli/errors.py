"""Exit codes, and what people and scripts are told when something goes wrong.

    0    done
    1    the operation was refused, a check failed, or the job did not succeed
    2    usage: the command line, the configuration or a value is malformed
    3    the coordinator or the database cannot be reached, or cannot answer now
    4    there is no such job, schedule, calendar, queue, tenant, key or session
    130  interrupted

On stderr stand one line `error: …` and, where there is a remedy, one line `hint: …`. With --json it is one line
{"error": {"reason": …, "message": …, "details": {…}}}, on stderr too, so that stdout holds results only.
"""

import json
import sys
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

from rota.domain.errors import RotaError


class Exit(IntEnum):
    """The exit codes of every command."""

    OK = 0
    REFUSED = 1
    USAGE = 2
    UNREACHABLE = 3
    NOT_FOUND = 4
    INTERRUPTED = 130


EXIT_CODES: Final = (
    "Exit codes: 0 done; 1 refused, a check failed or the job did not succeed; 2 usage; "
    "3 coordinator or database not reachable; 4 not found; 130 interrupted."
)

# The server's tree of errors and the SDK's share these names.
_EXIT_BY_CLASS: Final = {
    "InvalidArgument": Exit.USAGE,
    "NotFound": Exit.NOT_FOUND,
    "Unavailable": Exit.UNREACHABLE,
    "DeadlineExceeded": Exit.UNREACHABLE,
}
_HINTS: Final = {
    "UNAUTHENTICATED": "pass --api-key or set ROTA_API_KEY; `rota key create --role client` makes a key",
    "PERMISSION_DENIED": "use a key with the role that the call needs; `rota key list` shows the roles of each",
    "RESOURCE_NOT_FOUND": "check the id, and that the API key is of the right tenant",
    "NOT_IMPLEMENTED": "the call is part of the contract and not of the server's release",
    "INTERNAL": "this is a fault of Rota's own: the coordinator's log has more",
}
_ADVICE: Final = "; "


@dataclass(frozen=True, slots=True)
class Problem:
    """An error as it is shown."""

    exit: Exit
    reason: str
    message: str
    hint: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    def show(self, *, as_json: bool) -> None:
        if as_json:
            message = self.message if not self.hint else f"{self.message}{_ADVICE}{self.hint}"
            error = {"reason": self.reason, "message": message, "details": self.details}
            print(json.dumps({"error": error}), file=sys.stderr)
            return
        from rota.cli.output import printable

        print(f"error: {printable(self.message)}", file=sys.stderr)
        if self.hint:
            print(f"hint: {printable(self.hint)}", file=sys.stderr)


def explain(error: BaseException) -> Problem | None:
    """What is wrong, in a person's terms. None for what only a bug explains."""
    if isinstance(error, RotaError) or _is_sdk_error(error):
        return _explain_refusal(error)
    if hasattr(error, "format_message"):
        return _explain_usage(error)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return Problem(Exit.REFUSED, "OS_ERROR", f"{where}{error.strerror or error}")
    return None


def _is_sdk_error(error: BaseException) -> bool:
    # Not imported here, because it brings grpc: what is not loaded cannot have been raised.
    module = sys.modules.get("rota_sdk.errors")
    return module is not None and isinstance(error, module.RotaError)


def _explain_refusal(error: Any) -> Problem:
    exit_code = next(
        (_EXIT_BY_CLASS[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in _EXIT_BY_CLASS),
        Exit.REFUSED,
    )
    details: dict[str, Any] = dict(getattr(error, "metadata", None) or getattr(error, "details", {}))
    violations = [{"field": v.field, "description": v.description} for v in error.violations]
    if violations:
        details["violations"] = violations
    message, hint = error.message, _HINTS.get(error.reason, "")
    if type(error).__name__ == "ConnectionFailed":
        hint = "`rota dev` starts one here; otherwise correct --address (ROTA_ADDRESS), or see whether it speaks TLS"
    if len(violations) < 2 and _ADVICE in message:
        # By the rule of every message the advice stands last. Ours is in the command line's own terms.
        message, _, advice = message.rpartition(_ADVICE)
        hint = hint or advice
    retry_after = getattr(error, "retry_after", None) or getattr(error, "retry_after_s", None)
    if retry_after:
        details["retry_after_s"] = retry_after
        hint = hint or f"try again in {retry_after:g} s"
    return Problem(exit_code, error.reason or _code_name(error), " ".join(message.split()), hint, details)


def _code_name(error: Any) -> str:
    return str(getattr(getattr(error, "code", None), "name", "UNKNOWN"))


def _explain_usage(error: Any) -> Problem:
    message = " ".join(error.format_message().split())
    context = getattr(error, "ctx", None)
    hint = f"see {context.command_path} --help" if context is not None else "see rota --help"
    option = getattr(error, "option_name", "")
    if context is not None and option in ("--address", "--api-key", "--config", "--no-color"):
        hint = f"{option} stands before the command: rota {option} … {context.command_path.partition(' ')[2]}"
    return Problem(Exit.USAGE, "USAGE", message.rstrip("."), hint)
