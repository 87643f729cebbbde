"""Builds the wheel with the standard library alone (and tomli before Python 3.11), so that a machine
without a registry can.

The build backend of PEP 517 that pyproject.toml names. Everything in the wheel comes from
pyproject.toml and from the folder ``undertone_node``; times are fixed, so that the same sources
give the same bytes.

With the settings ``program`` (a path) and ``platform`` (a tag of PEP 600) the program ``undertone``
is inside as well, and gets onto PATH:
``pip wheel node/python -C program=target/release/undertone -C platform=manylinux_2_36_x86_64``.
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


def _contents(project, info, tag):
    sources = (path for path in (HERE / PACKAGE).iterdir() if path.suffix in {".py", ".typed"})
    for path in sorted(sources):
        yield f"{PACKAGE}/{path.name}", path.read_bytes()
    yield f"{info}/METADATA", _metadata(project).encode()
    pure = str(tag == "py3-none-any").lower()
    tags = f"Wheel-Version: 1.0\nGenerator: undertone\nRoot-Is-Purelib: {pure}\nTag: {tag}\n"
    yield f"{info}/WHEEL", tags.encode()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel into a folder; its file name (PEP 517)."""
    project = _project()
    stem = f"{PACKAGE}-{project['version']}"
    settings = config_settings or {}
    tag = f"py3-none-{settings['platform']}" if "program" in settings else "py3-none-any"
    info, name = f"{stem}.dist-info", f"{stem}-{tag}.whl"
    record = []
    with zipfile.ZipFile(Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:

        def add(path, data, mode=0o100644):
            entry = zipfile.ZipInfo(path, FIXED)
            # Unix, wherever it is packed: installers take the mode from there.
            entry.create_system = 3
            entry.external_attr = mode << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)

        contents = [(path, data, 0o100644) for path, data in _contents(project, info, tag)]
        if "program" in settings:
            program = Path(settings["program"]).read_bytes()
            contents.insert(0, (f"{stem}.data/scripts/undertone", program, 0o100755))
        for path, data, mode in contents:
            add(path, data, mode)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(data)}")
        add(f"{info}/RECORD", "\n".join([*record, f"{info}/RECORD,,"]) + "\n")
    return name
