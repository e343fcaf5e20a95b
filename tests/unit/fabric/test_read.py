"""Fabrics by name and from files."""

import pytest

from lightloom.errors import FabricError
from lightloom.fabric import FABRICS, FatTree, MixNet, load_fabric


@pytest.fixture
def write(tmp_path):
    def file(text, name="mine.toml"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return file


@pytest.mark.parametrize("kind", FABRICS)
def test_by_name(kind):
    fabric = load_fabric(kind)
    assert type(fabric) is FABRICS[kind]
    assert (fabric.kind, fabric.name) == (kind, kind)
    assert fabric.parameters()["kind"] == kind


def test_a_file_is_a_kind_and_options(write):
    path = write(
        """
        kind = "mixnet"
        ports = 3
        fixed_s = "10 ms"
        gpus_per_server = 4
        nics_per_server = 4
        rate_gbps = 200
        """
    )
    fabric = load_fabric(str(path))
    assert isinstance(fabric, MixNet)
    assert fabric.name == "mine"
    assert (fabric.ports, fabric.fixed_s, fabric.nics_per_server) == (3, 0.01, 4)
    assert load_fabric(path, {"ports": 2, "label": "theirs"}).parameters() == {
        **fabric.parameters(), "ports": 2, "label": "theirs",
    }  # fmt: skip


def test_replace_checks_again():
    fabric = MixNet(ports=4, first="block").replace(ports=5)
    assert (fabric.ports, fabric.first) == (5, "block")
    with pytest.raises(FabricError, match="mixnet: ports = 0"):
        fabric.replace(ports=0)


def test_fabrics_cannot_be_changed_behind_ones_back():
    with pytest.raises(ValueError, match="frozen"):
        FatTree().switch_ports = 32


@pytest.mark.parametrize(("name", "options", "text"), [
    ("fat_tree", {}, "unknown fabric 'fat_tree'; did you mean 'fat-tree'?; known: "
     f"{', '.join(FABRICS)}, or a .toml file"),
    ("mixnet", {"prots": 3}, "mixnet: unknown key 'prots'; did you mean 'ports'?"),
    ("fat-tree", {"zzz": 3}, "fat-tree: unknown key 'zzz'; known: label, all_to_all,"),
    ("mixnet", {"ports": 2.5}, "mixnet: ports = 2.5: expected a whole number"),
    ("mixnet", {"ports": True}, "mixnet: ports = True: expected a whole number"),
    ("mixnet", {"split": "yes"}, "mixnet: split = yes: expected on or off"),
    ("mixnet", {"fixed_s": "25 parsecs"},
     "mixnet: fixed_s = 25 parsecs: cannot read"
     " '25 parsecs' as a time such as '25 ms', or 'measured', or 'measured-p99'"),
    ("mixnet", {"fixed_s": "mesured"},
     "mixnet: fixed_s = mesured: cannot read 'mesured' as a"
     " time such as '25 ms', or 'measured', or 'measured-p99'; did you mean 'measured'?"),
    ("mixnet", {"allocator": "bset"}, "mixnet: allocator = bset: expected one of paper, reference,"
     " static, greedy, parametric, best, exact; did you mean 'best'?"),
    ("mixnet", {"when": "brake-even"}, "mixnet: when = brake-even: expected one of"
     " never, always, per-layer, break-even, oracle; did you mean 'break-even'?"),
    ("mixnet", {"first": "prdict"}, "mixnet: first = prdict: expected one of reuse, block,"
     " predict; did you mean 'predict'?"),
    ("mixnet", {"first": 3}, "mixnet: first = 3: expected one of reuse, block, predict"),
    ("mixnet", {"link_up_s": "-1 s"}, "mixnet: link_up_s = -1.0: expected at least 0"),
    ("mixnet", {"control_s": 1e7}, "mixnet: control_s = 10000000.0: expected at"
     " most 1e+06 second"),
    ("oversub", {"ratio": 0.5}, "oversub: ratio = 0.5: expected at least 1"),
    ("oversub", {"ratio": float("inf")}, "oversub: ratio = inf: expected a finite number"),
    ("rail", {"rate_gbps": 0}, "rail: rate_gbps = 0.0: expected more than 0"),
    ("rail", {"switch_ports": -4}, "rail: switch_ports = -4: expected more than 0"),
    ("topoopt", {"label": "a\nb"}, "topoopt: label = a\\nb: expected a name"),
])  # fmt: skip
def test_wrong_options_are_one_line(name, options, text):
    with pytest.raises(FabricError) as error:
        load_fabric(name, options)
    assert str(error.value).startswith(text)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("text", "expected"), [
    ("ports = 3", "kind is needed, such as kind = \"fat-tree\"; known: fat-tree, oversub,"),
    ("kind = 3", "kind is needed"),
    ("kind = 'mixnut'", "unknown fabric 'mixnut'; did you mean 'mixnet'?"),
    ("kind = 'mixnet'\nratio = 3", "mixnet: unknown key 'ratio'"),
    ("kind = 'mixnet'\n[ports]\nx = 1", "mixnet: ports = {'x': 1}: expected a whole number"),
    ("kind = ", "not valid TOML: "),
])  # fmt: skip
def test_wrong_files_are_one_line(write, text, expected):
    path = write(text)
    with pytest.raises(FabricError) as error:
        load_fabric(path)
    assert str(error.value).startswith(f"{path}: {expected}")


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(FabricError, match=r"no\.toml: no such file"):
        load_fabric(tmp_path / "no.toml")
    path = tmp_path / "binary.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FabricError, match=r"binary\.toml: not UTF-8 text"):
        load_fabric(str(path))
