"""Examples run, print what is shown next to them, and are those of the README."""

import ast
import contextlib
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.torch_python import PYTHON, absent

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_an_example_prints_what_is_beside_it(path):
    code = path.read_text()
    assert len(code.splitlines()) <= 60
    if "import torch" in code:
        if absent("torch", "numpy", "pydantic"):
            pytest.skip("no PyTorch: make torch")
        python, environment = PYTHON, {"PYTHONPATH": str(ROOT / "python"), "OMP_NUM_THREADS": "1"}
    else:
        python, environment = sys.executable, {"PYTHONWARNINGS": "error"}
    run = subprocess.run(
        [python, path], capture_output=True, text=True, check=False, env=os.environ | environment
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == path.with_suffix(".txt").read_text()


def outputs_of(cell, names):
    """What a notebook stores of a cell: what it prints, and the value of a last expression."""
    *body, last = ast.parse("".join(cell["source"])).body
    value = None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(ast.Module(body, []), "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
        else:
            exec(compile(ast.Module([last], []), "cell", "exec"), names)
    found = []
    if text := printed.getvalue():
        found.append({"name": "stdout", "output_type": "stream", "text": text})
    if value is not None:
        data = {"text/html": value._repr_html_(), "text/plain": repr(value)}
        number = cell["execution_count"]
        found.append({"data": data, "execution_count": number, "metadata": {},
                      "output_type": "execute_result"})  # fmt: skip
    return found


def unstyled(outputs):
    """Without the style sheet and scripts of pages, which change with any of them."""
    return re.sub(r"&lt;(style|script)&gt;.*?&lt;/\1&gt;", "", json.dumps(outputs), flags=re.DOTALL)


#: what the outputs of some cells of each notebook have, by the number of the cell
SHOWN = {
    "quick-start": {0: "Build ", 1: "path", 3: "671.0 B, 36.5 B per token"},
    "choose-what-to-buy": {
        0: "Buy 32 A100 on ",
        1: "data-tip",
        2: "'recommended': 1",
        3: ", now $",
    },
    "sweeps-failures-switches": {0: "(100.0, 'fat-tree', ", 1: "useful", 2: "is useful", 3: "svg"},
}
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_stores_what_a_run_shows(request, path):
    """Run it with --update-golden to renew that."""
    notebook = json.loads(path.read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    names = {}
    stored = [cell["outputs"] for cell in cells]
    for number, cell in enumerate(cells, 1):
        cell["execution_count"] = number
        cell["outputs"] = outputs_of(cell, names)
    if request.config.getoption("--update-golden"):
        path.write_text(json.dumps(notebook, indent=1) + "\n")
        return
    assert unstyled(stored) == unstyled([cell["outputs"] for cell in cells])
    for number, text in SHOWN[path.stem].items():
        assert text in unstyled(stored[number])


def test_the_readme_shows_the_example():
    code = (ROOT / "examples" / "compare_fabrics.py").read_text().split('"""\n', 1)[1].strip()
    assert code in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("name", ["simulate-packets.md", "schedule-a-demand.md"])
def test_code_in_the_docs_runs(name):
    text = (ROOT / "docs" / "how-to" / name).read_text()
    samples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert samples
    for code in samples:
        run = subprocess.run(
            [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stderr
        assert run.stdout


def test_the_packets_of_the_examples_run():
    command = [sys.executable, "-m", "lightloom", "packets", "--scenario", "examples/packets.toml"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert run.returncode == 0, run.stderr
    assert "All 224 flows finished" in run.stdout


def test_the_ring_of_the_guide_deadlocks():
    command = [sys.executable, "-m", "lightloom", "packets", "--scenario", "deadlock.toml"]
    folder = ROOT / "examples" / "ring"
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert run.returncode == 3
    cause, flows = run.stderr.splitlines()
    guide = (ROOT / "docs" / "how-to" / "simulate-packets.md").read_text()
    assert cause in guide
    assert flows.split(", flow 1 ")[0] in guide
