"""CronJobs of Kubernetes (batch/v1) as schedules.

    schedule, timeZone              cron in that zone; without one, that of the controller, commonly UTC
    concurrencyPolicy               Allow, Forbid, Replace: allow, skip, replace
    startingDeadlineSeconds         the newest missed run is made up for within that span (catch-up, at most one);
                                    without it, whenever it was missed (coalesce)
    suspend                         paused
    backoffLimit                    attempts: one more than it; 7 when it is not given
    activeDeadlineSeconds           of the Job: timeouts.total; of the pod: timeouts.run
    command, args, env, workingDir  the command, with $(NAME) of plain variables filled in

What the rest of a manifest says, such as images, volumes and resources, is noted, since a command runs where its runner
does. With a job type, jobs of that type get the container as payload instead, for workers that know what to do with it.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from yaml.nodes import MappingNode, Node, SequenceNode

from rota.domain import limits
from rota.domain.text import shown
from rota.manifest import naming, nodes
from rota.manifest.imported import RUN_MOST, Imported, unique
from rota.manifest.problems import Problems, Refused

BACKOFF_LIMIT_DEFAULT: Final = 6
LATE_TOLERANCE_S: Final = 60
_API_VERSIONS: Final = ("batch/v1", "batch/v1beta1")
_POLICIES: Final = {"Allow": "allow", "Forbid": "skip", "Replace": "replace"}
_VARIABLE: Final = re.compile(r"\$(\$|\(([A-Za-z_.-][A-Za-z0-9_.-]*)\))")
_EVERY: Final = re.compile(r"@every\s+(([0-9]+(?:\.[0-9]+)?(?:h|m|s|ms))+)")

# Read here, or without a meaning outside a cluster. All else is noted.
_KNOWN: Final = {
    "": {"apiVersion", "kind", "metadata", "spec", "status"},
    "metadata": {
        *("name", "namespace", "labels", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"),
        *("selfLink", "ownerReferences"),
    },
    "spec": {
        *("schedule", "timeZone", "concurrencyPolicy", "startingDeadlineSeconds", "suspend", "jobTemplate"),
        *("successfulJobsHistoryLimit", "failedJobsHistoryLimit"),
    },
    "spec.jobTemplate": {"metadata", "spec"},
    "spec.jobTemplate.spec": {
        *("template", "backoffLimit", "activeDeadlineSeconds", "completions", "parallelism"),
        *("ttlSecondsAfterFinished", "suspend"),
    },
    "spec.jobTemplate.spec.template": {"metadata", "spec"},
    "pod": {"containers", "restartPolicy", "activeDeadlineSeconds", "terminationGracePeriodSeconds"},
    "container": {"name", "command", "args", "env", "workingDir"},
}
_DEFAULTS: Final = {
    *("dnsPolicy", "schedulerName", "terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy"),
    "enableServiceLinks",
}


@dataclass(frozen=True, slots=True)
class Options:
    """`zone`: of manifests without timeZone. `job_type` empty: their containers' commands run on the exec runner."""

    zone: str = "UTC"
    queue: str = ""
    job_type: str = ""


class _Refusal(Exception):
    """Why a manifest cannot be taken."""


def read(text: str, source: str, options: Options, now: datetime, into: Imported | None = None) -> Imported:
    """Reads the manifests of one file; more files go `into` what the first one gave."""
    result = into if into is not None else Imported(source)
    try:
        documents = nodes.documents(text, source)
    except Refused as error:
        for problem in error.problems:
            result.refuse(problem.line, source, problem.description)
        return result
    for node in documents:
        problems = Problems(source)
        value = nodes.plain(node, "", problems)
        if problems:
            first = problems.found[0]
            result.refuse(first.line, source, f"{first.path}: {first.description}" if first.path else first.description)
            continue
        for line, item in _items(node, value):
            _read_one(line, item, options, now, result)
    return result


def _items(node: Node, value: Any) -> list[tuple[int, Any]]:
    """The objects of a document: itself, or those of a list."""
    line = nodes.line(node)
    if not isinstance(value, dict) or not str(value.get("kind", "")).endswith("List"):
        return [(line, value)]
    items = value.get("items")
    if not isinstance(items, list) or not isinstance(node, MappingNode):
        return [(line, items)]
    for name, _, child in nodes.pairs(node, "", Problems("")):
        if name == "items" and isinstance(child, SequenceNode):
            return list(zip(map(nodes.line, child.value), items, strict=True))
    return []


def _read_one(line: int, item: Any, options: Options, now: datetime, result: Imported) -> None:
    if not isinstance(item, dict):
        result.refuse(
            line, shown(str(item)), "expected a manifest with apiVersion and kind, found otherwise; correct it"
        )
        return
    kind = str(item.get("kind", ""))
    metadata = _mapping(item.get("metadata"))
    name = str(metadata.get("name", ""))
    what = f"{kind or 'object'} {name}".strip()
    if kind != "CronJob":
        result.note(line, what, "not a CronJob, left alone")
        return
    try:
        notes: list[str] = []
        if item.get("apiVersion") not in _API_VERSIONS:
            expected = " or ".join(_API_VERSIONS)
            raise _Refusal(f"apiVersion: expected {expected}, found {_found(item.get('apiVersion'))}; correct it")
        if not name:
            raise _Refusal("metadata.name: expected a name, found none; give one, from which the schedule's id is made")
        namespace = str(metadata.get("namespace") or "default")
        wanted = naming.cleaned(name) if namespace == "default" else naming.cleaned(f"{namespace}.{name}")
        schedule = _schedule(item, options, notes)
    except _Refusal as refusal:
        result.refuse(line, what, str(refusal), name)
        return
    id = unique(wanted, result.schedules)
    if id != wanted:
        notes.append(f"{wanted} is taken by another manifest")
    result.add(line, what, id, schedule, notes, now)


def _schedule(item: dict[str, Any], options: Options, notes: list[str]) -> dict[str, Any]:
    spec = _required(item, "spec")
    job_spec = _required(_required(spec, "jobTemplate", "spec."), "spec", "spec.jobTemplate.")
    template = _required(job_spec, "template", "spec.jobTemplate.spec.")
    pod = _required(template, "spec", "spec.jobTemplate.spec.template.")
    for path, value in (
        ("", item),
        ("metadata", _mapping(item.get("metadata"))),
        ("spec", spec),
        ("spec.jobTemplate", spec["jobTemplate"]),
        ("spec.jobTemplate.spec", job_spec),
        ("spec.jobTemplate.spec.template", template),
    ):
        notes += [f"{path}.{key} is not carried over".lstrip(".") for key in value if key not in _KNOWN[path]]
    schedule = _when(spec, options, notes)
    schedule |= _policies(spec)
    labels, dropped = _labels(_mapping(item.get("metadata")).get("labels"))
    if labels:
        schedule["labels"] = labels
    job: dict[str, Any] = {}
    at = "spec.jobTemplate.spec.template.spec"
    notes += [f"{at}.{key} is not carried over" for key in pod if key not in _KNOWN["pod"] | _DEFAULTS]
    if options.job_type:
        job |= {"type": options.job_type, "payload": _container(pod)}
    else:
        schedule["command"] = _command(pod, notes)
    if options.queue:
        job["queue"] = options.queue
    job_labels, more = _labels(_mapping(spec["jobTemplate"].get("metadata")).get("labels"))
    if job_labels:
        job["labels"] = job_labels
    notes += [f"label {key} is longer than a label may be, and left out" for key in (*dropped, *more)]
    job["retry"] = {"max_attempts": _attempts(job_spec)}
    job["timeouts"] = _timeouts(job_spec, pod)
    return schedule | {"job": job}


def _when(spec: dict[str, Any], options: Options, notes: list[str]) -> dict[str, Any]:
    text = spec.get("schedule")
    if not isinstance(text, str) or not text.strip():
        raise _Refusal(f"spec.schedule: expected a cron expression, found {_found(text)}; write one, in quotes")
    text = text.strip()
    if text.upper().startswith(("TZ=", "CRON_TZ=")):
        zone, _, rest = text.partition(" ")
        remedy = f"write schedule: {rest.strip()!r} and timeZone: {zone.partition('=')[2]!r}"
        raise _Refusal(f"spec.schedule: expected no zone in it, as Kubernetes does, found {shown(text)}; {remedy}")
    given = spec.get("timeZone")
    zone = options.zone if given is None else given
    if given is None:
        notes.append(
            f"no timeZone: times are taken in {options.zone}, as the controller's zone; --timezone says otherwise"
        )
    if found := _EVERY.fullmatch(text):
        return {"every": found[1], "timezone": zone}
    return {"cron": expression(text), "timezone": zone}


def expression(text: str) -> str:
    """The same times in the words of cron. In Kubernetes ? is *, and a stepped * counts as a restricted day field."""
    fields = text.split()
    if len(fields) != 5:
        return text
    fields = ["*" if field == "?" else field for field in fields]
    for index, whole in ((2, "1-31"), (4, "0-6")):
        items = [
            f"{whole}{item[1:]}" if re.fullmatch(r"[*?]/0*([2-9]|[1-9][0-9]+)", item) else item
            for item in fields[index].split(",")
        ]
        fields[index] = ",".join(items)
    return " ".join(fields)


def _policies(spec: dict[str, Any]) -> dict[str, Any]:
    policy = spec.get("concurrencyPolicy", "Allow")
    if policy not in _POLICIES:
        raise _Refusal(f"spec.concurrencyPolicy: expected Allow, Forbid or Replace, found {_found(policy)}; correct it")
    found: dict[str, Any] = {"missed": "coalesce"}
    deadline = _whole(spec, "startingDeadlineSeconds", "spec.", 0, int(limits.CATCH_UP_WINDOW_MAX_S))
    if deadline is not None:
        tolerance = f"{min(deadline, LATE_TOLERANCE_S)}s"
        found["missed"] = {"policy": "skip", "late_tolerance": tolerance}
        if deadline > LATE_TOLERANCE_S:
            found["missed"] = {
                "policy": "catch-up",
                "late_tolerance": tolerance,
                "window": f"{deadline}s",
                "max": 1,
            }
    found["overlap"] = _POLICIES[policy]
    suspend = spec.get("suspend", False)
    if not isinstance(suspend, bool):
        raise _Refusal(f"spec.suspend: expected true or false, found {_found(suspend)}; correct it")
    if suspend:
        found["paused"] = True
    return found


def _attempts(job_spec: dict[str, Any]) -> int:
    for key in ("completions", "parallelism"):
        count = _whole(job_spec, key, "spec.jobTemplate.spec.", 0, 1_000_000)
        if count is not None and count != 1:
            remedy = "make one schedule for each, or let the command start them"
            raise _Refusal(f"spec.jobTemplate.spec.{key}: expected 1, found {count}; {remedy}")
    limit = _whole(job_spec, "backoffLimit", "spec.jobTemplate.spec.", 0, limits.MAX_ATTEMPTS_MAX - 1)
    return (BACKOFF_LIMIT_DEFAULT if limit is None else limit) + 1


def _timeouts(job_spec: dict[str, Any], pod: dict[str, Any]) -> dict[str, Any]:
    at = "spec.jobTemplate.spec."
    total = _whole(job_spec, "activeDeadlineSeconds", at, 1, int(limits.TOTAL_TIMEOUT_MAX_S))
    run = _whole(pod, "activeDeadlineSeconds", f"{at}template.spec.", 1, int(limits.RUN_TIMEOUT_MAX_S))
    if run is None and total is not None and total <= limits.RUN_TIMEOUT_MAX_S:
        run = total
    found = {"run": f"{run}s" if run is not None else RUN_MOST}
    return found | ({"total": f"{total}s"} if total is not None else {})


def _container(pod: dict[str, Any]) -> dict[str, Any]:
    """The one container of a pod."""
    at = "spec.jobTemplate.spec.template.spec.containers"
    containers = pod.get("containers")
    if not isinstance(containers, list) or len(containers) != 1 or not isinstance(containers[0], dict):
        count = len(containers) if isinstance(containers, list) else 0
        raise _Refusal(f"{at}: expected one container, found {count}; a job is one program: make one of them")
    return containers[0]


def _command(pod: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    container = _container(pod)
    at = "spec.jobTemplate.spec.template.spec"
    if pod.get("initContainers"):
        remedy = "put what they do into the command, or give --job-type for a worker that runs pods"
        raise _Refusal(f"{at}.initContainers: expected none, found {len(pod['initContainers'])}; {remedy}")
    program = _texts(container, "command", at)
    if not program:
        remedy = "add it to the manifest, or give --job-type for a worker that runs images"
        raise _Refusal(f"{at}.containers[0].command: expected the program, found none, so the image decides; {remedy}")
    if image := container.get("image"):
        notes.append(f"image {image} is not used: the command runs with what its runner's machine has")
    ignored = _KNOWN["container"] | _DEFAULTS | {"image"}
    notes += [f"{at}.containers[0].{key} is not carried over" for key in container if key not in ignored]
    env = _environment(container, at, notes)
    found: dict[str, Any] = {"argv": [_filled(text, env) for text in (*program, *_texts(container, "args", at))]}
    if env:
        found["env"] = {name: value for name, value in env.items() if value is not None}
    folder = container.get("workingDir")
    if isinstance(folder, str) and folder.startswith("/"):
        found["dir"] = folder
    return {key: value for key, value in found.items() if value}


def _environment(container: dict[str, Any], at: str, notes: list[str]) -> dict[str, str | None]:
    """Plain variables by name; None for those whose value stands elsewhere."""
    found: dict[str, str | None] = {}
    given = container.get("env") or []
    if not isinstance(given, list):
        raise _Refusal(f"{at}.containers[0].env: expected a list, found {_found(given)}; correct it")
    for index, entry in enumerate(given):
        place = f"{at}.containers[0].env[{index}]"
        name = _mapping(entry).get("name")
        if not isinstance(name, str) or not name:
            raise _Refusal(f"{place}.name: expected a name, found {_found(name)}; correct it")
        if "valueFrom" in entry:
            found[name] = None
            notes.append(f"{name} comes from the cluster (valueFrom): set it in the runner's environment")
            continue
        value = entry.get("value") or ""
        if not isinstance(value, str):
            raise _Refusal(f"{place}.value: expected a text, found {_found(value)}; put it in quotes")
        found[name] = _filled(value, found)
    return found


def _filled(text: str, env: dict[str, str | None]) -> str:
    """$(NAME) replaced as Kubernetes does it: $$ is a $, and an unknown name stays as it is."""

    def fill(found: re.Match[str]) -> str:
        if found[1] == "$":
            return "$"
        name = found[2]
        if name not in env:
            return found[0]
        value = env[name]
        if value is None:
            raise _Refusal(f"$({name}): expected a plain value, found valueFrom; read the variable in a script instead")
        return value

    return _VARIABLE.sub(fill, text)


def _texts(container: dict[str, Any], key: str, at: str) -> list[str]:
    found = container.get(key)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise _Refusal(f"{at}.containers[0].{key}: expected a list of texts, found {_found(found)}; quote numbers")
    return found


def _labels(given: Any) -> tuple[dict[str, str], list[str]]:
    """Labels that can be kept, and the names of the others."""
    labels = {str(key): str(value) for key, value in _mapping(given).items()}
    kept = {key: value for key, value in labels.items() if len(key.encode()) <= limits.MAP_KEY_BYTES_MAX}
    return kept, [key for key in labels if key not in kept]


def _whole(given: dict[str, Any], key: str, at: str, low: int, high: int) -> int | None:
    value = given.get(key)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise _Refusal(f"{at}{key}: expected a whole number from {low} to {high}, found {_found(value)}; correct it")
    return value


def _required(given: dict[str, Any], key: str, at: str = "") -> dict[str, Any]:
    value = given.get(key)
    if not isinstance(value, dict):
        raise _Refusal(f"{at}{key}: expected a mapping, found {_found(value)}; add it")
    return value


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _found(value: Any) -> str:
    return "nothing" if value is None else shown(value) if isinstance(value, str) else shown(repr(value))
