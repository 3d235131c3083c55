#!/usr/bin/python3
"""Executes docs/notebook.ipynb with the module of assets/python and this build's program.

    tests/python/check_notebook.py MOESCOPE_CLI

Exits with 77 if Jupyter or NumPy is not installed. Debian: python3-nbconvert python3-ipykernel python3-numpy.
"""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CELLS = 10

try:
    import ipykernel  # noqa: F401
    import nbformat
    import numpy  # noqa: F401
    from nbconvert.preprocessors import CellExecutionError, ExecutePreprocessor
except ImportError as error:
    print("skipped: %s (Debian: python3-nbconvert python3-ipykernel python3-numpy)" % error)
    sys.exit(77)


def main():
    os.environ["MOESCOPE_CLI"] = os.path.abspath(sys.argv[1])
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"  # a warning of the kernel's debugger
    os.environ["PYTHONPATH"] = str(ROOT / "assets" / "python")
    notebook = nbformat.read(ROOT / "docs" / "notebook.ipynb", as_version=4)
    if len(notebook.cells) != CELLS:
        sys.exit("%d cells, not %d" % (len(notebook.cells), CELLS))
    if any(cell.get("outputs") for cell in notebook.cells):
        sys.exit("the notebook is kept without outputs")
    try:
        ExecutePreprocessor(timeout=600, kernel_name="python3").preprocess(notebook, {"metadata": {"path": "/"}})
    except CellExecutionError as error:
        sys.exit(str(error))
    shown = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    pages = [output["data"]["text/html"] for output in shown if "text/html" in output.get("data", {})]
    if not any("<iframe srcdoc=" in page for page in pages):
        sys.exit("no cell displays the replay page")
    said = "".join(output.get("text", "") for output in shown)
    for text in ("nats/token", "MaxVio", "mxfp4", "2^"):
        if text not in said:
            sys.exit("no cell prints %r:\n%s" % (text, said))
    print("%d cells executed\n%s" % (CELLS, said))


if __name__ == "__main__":
    main()
