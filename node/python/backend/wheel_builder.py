"""Builds the wheel with the standard library alone (and tomli before Python 3.11), so that a machine
without a registry can.

The build backend of PEP 517 that pyproject.toml names. Everything in the wheel comes from
pyproject.toml and from the folder ``undertone_node``; times are fixed, so that the same sources
give the same bytes.
"""

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).resolve().parent.parent
PACKAGE = "undertone_node"
#: The first moment that a zip can say.
FIXED = (1980, 1, 1, 0, 0, 0)


def _project():
    with open(HERE / "pyproject.toml", "rb") as file:
        return tomllib.load(file)["project"]


def _metadata(project):
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"License: {project['license']['text']}",
        f"Requires-Python: {project['requires-python']}",
    ]
    lines += [f"Requires-Dist: {needed}" for needed in project["dependencies"]]
    for extra, wanted in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {needed}; extra == "{extra}"' for needed in wanted]
    return "\n".join(lines) + "\n"


def _contents(project, info):
    sources = (path for path in (HERE / PACKAGE).iterdir() if path.suffix in {".py", ".typed"})
    for path in sorted(sources):
        yield f"{PACKAGE}/{path.name}", path.read_bytes()
    yield f"{info}/METADATA", _metadata(project).encode()
    tags = "Wheel-Version: 1.0\nGenerator: undertone\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    yield f"{info}/WHEEL", tags.encode()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel into a folder; its file name (PEP 517)."""
    project = _project()
    stem = f"{PACKAGE}-{project['version']}"
    info, name = f"{stem}.dist-info", f"{stem}-py3-none-any.whl"
    record = []
    with zipfile.ZipFile(Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:

        def add(path, data):
            entry = zipfile.ZipInfo(path, FIXED)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)

        for path, data in _contents(project, info):
            add(path, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(data)}")
        add(f"{info}/RECORD", "\n".join([*record, f"{info}/RECORD,,"]) + "\n")
    return name
