"""Lists of flows in the forms of htsim and of HPCC's ns-3 model."""

import numpy as np
import pytest

from lightloom.errors import InputError
from lightloom.packets.flows import parse_flows


def rows(flows):
    starts = (flows.start_s * 1e9).round(6)
    columns = (flows.source, flows.destination, flows.size_bytes, starts)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_a_connection_matrix_of_htsim():
    text = "# made by hand\nNodes 16\nConnections 2\n\n0->13 start 0 size 2000000\n" \
           "13->0 id 2 start 1500000 size 64\n"  # fmt: skip
    flows = parse_flows(text.encode(), "x.cm")
    assert rows(flows) == [(0, 13, 2_000_000, 0.0), (13, 0, 64, 1500.0)]
    assert flows.place(1) == "x.cm, line 6"


def test_a_list_of_the_ns3_model_of_hpcc():
    flows = parse_flows(b"2\n0 1 3 100 20000 2.0\n7 1 3 100 5 2.000001\n", "flow.txt")
    assert rows(flows) == [(0, 1, 20_000, 2e9), (7, 1, 5, 2.000001e9)]


def test_random_lists_come_back():
    draw = np.random.default_rng(5)
    for _ in range(20):
        count = int(draw.integers(1, 40))
        ends = draw.integers(0, 99, (count, 2))
        sizes, starts = draw.integers(1, 10**9, count), draw.integers(0, 10**9, count)
        cells = zip(ends.tolist(), sizes.tolist(), starts.tolist(), strict=True)
        lines = [f"{a}->{b} start {start} size {size}" for (a, b), size, start in cells]
        text = f"Nodes 99\nConnections {count}\n" + "\n".join(lines)
        flows = parse_flows(text.encode(), "x")
        assert (np.stack([flows.source, flows.destination], 1) == ends).all()
        assert flows.size_bytes.tolist() == sizes.tolist()
        assert flows.start_ps.tolist() == starts.tolist()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Nodes 2\n0->1 start 0", "x, line 2: '0->1 start 0': expected such as '0->13 start 0 size "
         "2000000'"),
        ("Nodes 2\n0->1 start 0 size 5 speed 3", "x, line 2: speed: not read; expected start and "),
        ("Nodes 2\n0->1 start 0 size 5 prio 1e300", "x, line 2: '0->1 start 0 size 5 prio 1e300': "
         "expected prio to be a whole number"),
        ("Nodes 2\n0->1 id 1 trigger 1 size 5", "x, line 2: trigger: not read"),
        ("Nodes 2\nfailure x", "x, line 2: 'failure x': expected such as"),
        ("1\n0 1 3 100 20000", "x, line 2: '0 1 3 100 20000': expected source, destination, "),
        ("1\n0 1 3 100 20000 soon", "expected a number, not 'soon'"),
    ],
)  # fmt: skip
def test_what_is_not_read_is_said(text, message):
    with pytest.raises(InputError) as caught:
        parse_flows(text.encode(), "x")
    assert message in str(caught.value)


def test_a_table_stays_a_table():
    assert rows(parse_flows(b"src,dst,bytes\n0,1,7\n", "x")) == [(0, 1, 7, 0.0)]
    assert rows(parse_flows(b"# a comment\nsrc,dst,bytes\n0,1,7\n", "x")) == [(0, 1, 7, 0.0)]
