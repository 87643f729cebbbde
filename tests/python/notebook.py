"""Executes the cells of a notebook one after another, as a kernel would: notebook.py FILE.ipynb"""

import json
import sys

with open(sys.argv[1], encoding="utf-8") as opened:
    cells = json.load(opened)["cells"]
namespace = {"__name__": "__main__"}
for number, cell in enumerate(cells):
    if cell["cell_type"] == "code":
        exec(compile("".join(cell["source"]), f"cell {number}", "exec"), namespace)
