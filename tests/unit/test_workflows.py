"""The workflows of the repository: parsed, pinned, and in step with the metadata."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def read(path: Path) -> dict[Any, Any]:
    flow: dict[Any, Any] = yaml.safe_load(path.read_text())
    return flow


def steps(flow: dict[Any, Any]) -> list[dict[str, Any]]:
    return [step for job in flow["jobs"].values() for step in job.get("steps", [])]


@pytest.mark.parametrize("path", FLOWS, ids=lambda path: path.stem)
def test_jobs_have_what_they_need(path):
    flow = read(path)
    assert flow["name"] == path.stem
    assert True in flow, "'on' is true in YAML 1.1"
    assert flow["permissions"] == {"contents": "read"}
    for name, job in flow["jobs"].items():
        needed = job.get("needs", [])
        assert set([needed] if isinstance(needed, str) else needed) <= set(flow["jobs"]), name
        if "uses" in job:
            assert (ROOT / job["uses"]).exists()
            continue
        assert job["timeout-minutes"] > 0
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step), step


@pytest.mark.parametrize("path", FLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_and_checkouts_keep_no_credentials(path):
    uses = re.findall(r"uses: (\S+)(.*)", path.read_text())
    for action, comment in uses:
        if not action.startswith("./"):
            assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", action), action
            assert re.match(r" # v\d", comment), f"{action}: say which version this is"
    for step in steps(read(path)):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("path", FLOWS, ids=lambda path: path.stem)
def test_matrix_keys_exist(path):
    for job in read(path)["jobs"].values():
        matrix = job.get("strategy", {}).get("matrix", {})
        known = {key for key in matrix if key != "include"}
        known |= {key for row in matrix.get("include", []) for key in row}
        known |= {
            f"{key}.{inner}"
            for key, rows in matrix.items()
            for row in rows
            if isinstance(row, dict)
            for inner in row
        }
        used = set(re.findall(r"\$\{\{ matrix\.([\w.]+) \}\}", yaml.safe_dump(job)))
        assert used <= known


def test_every_supported_python_is_tested():
    matrix = read(ROOT / ".github/workflows/tests.yml")["jobs"]["test"]["strategy"]["matrix"]
    listed = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if " :: 3." in line]
    assert matrix["python"] == listed
    assert PROJECT["requires-python"] == f">={listed[0]}"


def test_artifacts_that_are_tried_are_built():
    jobs = read(ROOT / ".github/workflows/release.yml")["jobs"]
    linux, desktop = (jobs[name]["strategy"]["matrix"]["include"] for name in ("linux", "desktop"))
    built = {f"wheel-{row['manylinux']}-{row['target']}" for row in linux}
    built |= {f"wheel-{row['target']}" for row in desktop}
    assert {row["wheel"] for row in jobs["try"]["strategy"]["matrix"]["system"]} <= built
    assert len(built) == 7


def test_only_jobs_that_publish_have_a_token():
    jobs = read(ROOT / ".github/workflows/release.yml")["jobs"]
    rights = {name: job["permissions"] for name, job in jobs.items() if "permissions" in job}
    assert rights == {
        "publish": {"id-token": "write"},
        "site": {"id-token": "write", "pages": "write"},
    }
    for name in rights:
        assert jobs[name]["if"] == "startsWith(github.ref, 'refs/tags/v')"


def test_the_oldest_that_is_supported_is_tested():
    job = read(ROOT / ".github/workflows/tests.yml")["jobs"]["oldest"]
    commands = "".join(step.get("run", "") for step in job["steps"])
    assert "--resolution lowest-direct" in commands
    assert "rust-version" in commands
    pythons = [step["with"]["python-version"] for step in job["steps"] if "setup" in str(step)]
    assert PROJECT["requires-python"] == f">={pythons[0]}"


def test_every_kind_of_dependency_is_kept_up_to_date():
    updates = read(ROOT / ".github/dependabot.yml")["updates"]
    assert [one["package-ecosystem"] for one in updates] == ["github-actions", "cargo", "pip"]


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    assert citation["authors"] == [{"name": one["name"]} for one in PROJECT["authors"]]
    assert citation["cff-version"] == "1.2.0"


@pytest.mark.parametrize("path", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")))
def test_issue_templates_are_forms(path):
    form = yaml.safe_load(path.read_text())
    if path.stem == "config":
        assert set(form) == {"blank_issues_enabled"}
        return
    assert {"name", "description", "body"} <= set(form)
    assert all(field["type"] in {"input", "textarea"} for field in form["body"])
    assert all(field["attributes"]["label"] for field in form["body"])


def test_frameworks_are_traced_as_they_are_released_and_known_versions_are_told():
    pins = dict(
        line.split("==") for line in (ROOT / "tests/soak/requirements.txt").read_text().split()
    )
    told = " ".join((ROOT / "docs/how-to/trace-a-program.md").read_text().split())
    for name, version in pins.items():
        shown = "PyTorch" if name == "torch" else name
        assert f"{shown} {version}" in told, f"docs/how-to/trace-a-program.md: {name} {version}"
    assert {"run": "make newest"} in steps(read(ROOT / ".github/workflows/nightly.yml"))
