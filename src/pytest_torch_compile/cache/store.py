"""Store compile cache artifacts, with one file for each environment (device, versions of torch and Python, and so on).
This module does not import torch.
"""

from __future__ import annotations

import hashlib
import io
import json
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from ..baselines import schema
from ..disk import write_atomically

MAGIC = b"pytest-torch-compile artifacts\n"
SCHEMA_VERSION = 1
SUFFIX = ".artifacts"
# The number of most recent runs whose artifacts are kept. A run stores all artifacts that it used, so artifacts that
# only older runs stored are no longer needed.
KEPT_RUNS = 3
# No upload takes longer than this, so an older partial file was left by a killed run. Remote storage has no locks.
LONGEST_UPLOAD = timedelta(hours=1)
Environment = Mapping[str, str]
MOST_MANIFEST = 2**20
_PART: schema.Schema = {
    "type": "object",
    "required": ["run", "size"],
    "additionalProperties": False,
    "properties": {"run": {"type": "string"}, "size": {"type": "integer", "minimum": 0}},
}
_MANIFEST: schema.Schema = {
    "type": "object",
    "required": ["schema", "environment", "parts", "sha256"],
    "additionalProperties": False,
    "properties": {
        "schema": {"const": SCHEMA_VERSION},
        "environment": {
            "type": "object",
            "additionalProperties": {"type": ["string", "null"], "pattern": "[ -~]{0,100}"},
        },
        "parts": {"type": "array", "items": _PART},
        "sha256": {"type": "string", "pattern": "[0-9a-f]{64}"},
    },
}


class ArtifactsRefused(ValueError):
    """Raised when artifacts cannot be used in this environment; the message is one line."""


@dataclass(frozen=True)
class Part:
    """The artifacts that one process saved, as serialized by torch (``content``). ``run`` is the id of the test run."""

    run: str
    content: bytes


def pack(parts: Sequence[Part], environment: Environment) -> bytes:
    """Return the content of an artifacts file: a line with the file type, a line of metadata, and the concatenated
    parts.
    """
    body = b"".join(part.content for part in parts)
    header = {
        "schema": SCHEMA_VERSION,
        "environment": dict(environment),
        "parts": [{"run": part.run, "size": len(part.content)} for part in parts],
        "sha256": hashlib.sha256(body).hexdigest(),
    }
    return MAGIC + json.dumps(header, sort_keys=True).encode() + b"\n" + body


def unpack(blob: bytes, environment: Environment) -> list[Part]:
    """Return the parts of an artifacts file, which must have been created in the same environment.

    Raises:
        ArtifactsRefused: If the file has a different type or schema version, is damaged, or was created in a different
            environment.
    """
    header, body = _split(blob)
    stored = header["environment"]
    if different := [name for name in {**environment, **stored} if stored.get(name) != environment.get(name)]:
        there, here = (
            ", ".join(f"{name[:40]} {values.get(name) or 'none'}" for name in different[:8])
            for values in (stored, environment)
        )
        raise ArtifactsRefused(f"it was created with {there}, but this environment has {here}")
    expected = sum(part["size"] for part in header["parts"])
    if len(body) != expected:
        raise ArtifactsRefused(f"it is truncated: it has {len(body)} of {expected} bytes")
    if hashlib.sha256(body).hexdigest() != header["sha256"]:
        raise ArtifactsRefused("it is damaged: the checksum does not match")
    content = io.BytesIO(body)
    return [Part(part["run"], content.read(part["size"])) for part in header["parts"]]


def _split(blob: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the metadata of an artifacts file and the rest of the file."""
    if not blob.startswith(MAGIC):
        raise ArtifactsRefused("it contains no compile cache artifacts, or its header is damaged")
    line, _, body = blob[len(MAGIC) :].partition(b"\n")
    if len(line) > MOST_MANIFEST:
        raise ArtifactsRefused(f"its metadata is longer than {MOST_MANIFEST // 2**20} MiB")
    try:
        header = schema.parse(line)
    except schema.Refused as refused:
        raise ArtifactsRefused(f"it is truncated or damaged: its metadata {refused}") from None
    version = header.get("schema") if isinstance(header, dict) else None
    if isinstance(version, int) and version != SCHEMA_VERSION:
        raise ArtifactsRefused(
            f"it has schema version {schema.shown(version)}, but this plugin requires version {SCHEMA_VERSION}"
        )
    if wrong := schema.problem(header, _MANIFEST):
        raise ArtifactsRefused(f"it has invalid metadata: {wrong}")
    return header, body


def file_name(environment: Environment) -> str:
    """Return the file name for an environment. Each torch version and device has a separate file, so a run in one
    environment does not replace the artifacts for another environment.
    """
    words = "_".join("-".join(f"{name} {value}".split()) for name, value in sorted(environment.items()) if value)
    return "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in words) + SUFFIX


class Store:
    """The artifacts at an fsspec URL, with one file for each environment.

    Raises:
        ArtifactsRefused: If fsspec, or a package that it needs for this URL, is not installed.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise ArtifactsRefused("fsspec is not installed: pip install 'pytest-torch-compile[cache]'") from None
        try:
            self._files, self._root = url_to_fs(self.url)
        except (ImportError, ValueError) as error:
            raise ArtifactsRefused(" ".join(str(error).split())) from None

    def path(self, environment: Environment) -> str:
        """Return the path of the artifacts for this environment."""
        return f"{self._root}/{file_name(environment)}"

    def read(self, environment: Environment) -> list[Part]:
        """Return the parts stored for this environment, or an empty list if nothing is stored.

        Raises:
            ArtifactsRefused: If the stored artifacts cannot be used.
        """
        path = self.path(environment)
        self._files.invalidate_cache()  # fsspec remembers lists of files, and another run may have stored a file since
        if not self._files.exists(path):
            return []
        return unpack(self._files.cat_file(path), environment)

    def others(self, environment: Environment) -> list[str]:
        """Return the names of the files with artifacts for other environments."""
        names = {str(path).rsplit("/", 1)[-1] for path in self._files.glob(f"{self._root}/*{SUFFIX}")}
        return sorted(names - {file_name(environment)})

    def write(self, parts: Sequence[Part], environment: Environment) -> int:
        """Add parts to the stored artifacts, keep only the parts of the last ``KEPT_RUNS`` runs, and write the file
        atomically. Return the number of bytes written.

        Raises:
            ArtifactsRefused: If the stored artifacts cannot be used; in this case, the stored artifacts are not
                changed.
        """
        everything = [*self.read(environment), *parts]
        newest_runs = list(dict.fromkeys(part.run for part in everything))[-KEPT_RUNS:]
        blob = pack([part for part in everything if part.run in newest_runs], environment)
        path = self.path(environment)
        protocol = self._files.protocol
        if "file" in (protocol if isinstance(protocol, tuple) else (protocol,)):
            write_atomically(Path(path), blob)
        else:
            self._upload(path, blob)
        return len(blob)

    def _upload(self, path: str, blob: bytes) -> None:
        temporary = f"{path}.{uuid.uuid4().hex}.part"
        self._files.makedirs(self._root, exist_ok=True)
        for old in self._files.glob(f"{path}.*.part"):
            with suppress(Exception):  # another run removed the file, or the storage has no modification times
                if datetime.now(timezone.utc) - self._files.modified(old) > LONGEST_UPLOAD:
                    self._files.rm_file(old)
        try:
            self._files.pipe_file(temporary, blob)
            self._files.mv(temporary, path)
        finally:
            self._files.invalidate_cache()
            if self._files.exists(temporary):
                self._files.rm_file(temporary)


class Staging:
    """The folder through which the processes of a run pass artifacts and messages to the main process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, content: bytes, environment: Environment) -> None:
        """Add the artifacts of this process."""
        self._write(f"{uuid.uuid4().hex}.part", pack([Part("", content)], environment))

    def say(self, line: str) -> None:
        """Add a line for pytest's summary; identical lines from several processes are shown only once."""
        name = hashlib.sha256(line.encode()).hexdigest()[:16]
        self._write(f"{name}.line", line.encode())

    def parts(self, run: str) -> list[tuple[Environment, list[Part]]]:
        """Return the artifacts that the processes of the run added, grouped by environment."""
        by_file: dict[str, tuple[Environment, list[Part]]] = {}
        for path in sorted(self.folder.glob("*.part")):
            header, body = _split(path.read_bytes())
            environment = header["environment"]
            by_file.setdefault(file_name(environment), (environment, []))[1].append(Part(run, body))
        return list(by_file.values())

    def lines(self) -> list[str]:
        """Return the summary lines that the processes added."""
        return sorted(path.read_text(encoding="utf-8") for path in self.folder.glob("*.line"))

    def _write(self, name: str, content: bytes) -> None:
        write_atomically(self.folder / name, content)
