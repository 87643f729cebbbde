"""Whether files are of Python 3.9, by their syntax and by what they use of the standard library:
python_3_9.py FILE... prints a line for each thing that is not."""

import ast
import sys

#: What came after 3.9, of the modules that a package such as ours may use.
NEWER = {
    "tomllib", "pairwise", "batched", "TaskGroup", "Runner", "timeout_at", "UTC", "StrEnum", "Self", "ParamSpec",
    "Concatenate", "TypeAlias", "TypeAliasType", "TypeGuard", "Never", "override", "LiteralString", "NotRequired",
    "Required", "Unpack", "TypeVarTuple", "assert_never", "assert_type", "reveal_type", "bit_count", "add_note",
    "ExceptionGroup", "BaseExceptionGroup", "aiter", "anext", "EncodingWarning", "KW_ONLY", "file_digest", "chdir",
    "hardlink_to", "get_annotations", "UnionType", "EllipsisType", "NoneType",
}
#: Keyword arguments that came later, by the function that takes them.
ARGUMENTS = {"zip": {"strict"}, "dataclass": {"slots", "kw_only", "weakref_slot"}, "bisect_left": {"key"}}


def guarded(tree):
    """The lines below a look at sys.version_info, which say what older versions do instead."""
    lines = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "sys.version_info" in ast.unparse(node.test):
            lines.update(range(node.lineno, node.end_lineno + 1))
    return lines


def evaluated_unions(tree):
    """`X | Y` of types where it is evaluated: what is assigned at the top of a module or class."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef)):
            for statement in node.body:
                if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
                    for part in ast.walk(statement.value):
                        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitOr):
                            yield part


for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as opened:
        text = opened.read()
    try:
        tree = ast.parse(text, path, feature_version=(3, 9))
    except SyntaxError as error:
        print(f"{path}:{error.lineno}: {error.msg}")
        continue
    fine = guarded(tree)
    found = [(part.lineno, "X | Y is evaluated") for part in evaluated_unions(tree)]
    if "|" in text and "from __future__ import annotations" not in text:
        found += [(node.lineno, "an annotation has |") for node in ast.walk(tree)
                  if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)]
    for node in ast.walk(tree):
        if isinstance(node, ast.alias):
            found += [(node.lineno, part) for part in node.name.split(".") if part in NEWER]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [(node.lineno, part) for part in node.module.split(".") if part in NEWER]
        elif isinstance(node, ast.Attribute) and node.attr in NEWER:
            found.append((node.lineno, node.attr))
        elif isinstance(node, ast.Name) and node.id in NEWER - {"tomllib"}:
            found.append((node.lineno, node.id))
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            found += [(node.lineno, f"{name}({word.arg}=)") for word in node.keywords
                      if word.arg in ARGUMENTS.get(name, ())]
    for line, what in sorted(set(found)):
        if line not in fine:
            print(f"{path}:{line}: {what}")
