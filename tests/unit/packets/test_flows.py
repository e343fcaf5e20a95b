"""Flows from arrays and tables: what is read, and what is wrong in one line."""

import numpy as np
import pytest

from lightloom.errors import InputError
from lightloom.packets import check_flows, make_flows, read_flows
from lightloom.packets.flows import MAX_FILE_BYTES, MAX_FLOWS, parse_flows

HEAD = "src,dst,bytes,start_us\n"
EXPECTED = (
    "expected a header with the columns src, dst, bytes, start_us, route, after, delay_us, "
    "priority, class"
)


def test_a_table_is_read_as_it_stands():
    flows = parse_flows(b"# made by hand\n\nsrc,dst,bytes,start_us\n3,1,2e6,0.5\n0,2,7,10\n", "x")
    assert flows.source.tolist() == [3, 0]
    assert flows.destination.tolist() == [1, 2]
    assert flows.size_bytes.tolist() == [2_000_000, 7]
    assert flows.start_ps.tolist() == [500_000, 10_000_000]
    assert flows.place(1) == "x, line 5"


def test_priorities_are_from_0_to_7():
    flows = parse_flows(b"src,dst,bytes,priority\n0,1,5,7\n1,0,5,0\n", "x")
    assert flows.priorities.tolist() == [7, 0]
    assert make_flows([0, 1], [1, 0], 5).priorities.tolist() == [0, 0]
    assert make_flows([0, 1], [1, 0], 5).with_priority(3).priorities.tolist() == [3, 3]
    for wrong in (8, -1):
        flows = parse_flows(f"src,dst,bytes,priority\n0,1,5,0\n1,0,5,{wrong}\n".encode(), "x")
        with pytest.raises(InputError, match=f"x, line 3: priority {wrong}: expected 0 to 7"):
            check_flows(flows, 2)
    with pytest.raises(InputError, match="a number for each of 2"):
        make_flows([0, 1], [1, 0], 5).with_priority([1])


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_columns_in_any_order_and_those_of_results(delimiter):
    lines = ["\ufefffct_us,DST, src ,flow,bytes,slowdown", ",4,2,9,10,1.5"]
    text = "\r\n".join(line.replace(",", delimiter) for line in lines)
    flows = parse_flows(text.encode(), "x")
    assert (flows.source[0], flows.destination[0], flows.size_bytes[0]) == (2, 4, 10)
    assert flows.start_ps.tolist() == [0]


def test_starts_are_whole_picoseconds():
    text = HEAD + "".join(f"0,1,1,{number / 1e6:.6f}\n" for number in (1, 999_999, 123_456_789))
    assert parse_flows(text.encode(), "x").start_ps.tolist() == [1, 999_999, 123_456_789]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "x: the file is empty; expected a table of flows"),
        ("# nothing\n",
         "x: the file is empty; expected a table of flows"),
        ("0,1,2,3\n", f"x, line 1: no column is called '0'; {EXPECTED}"),
        ("src,dts,bytes\n0,1,2", f"x, line 1: no column is called 'dts'; {EXPECTED}; did you mean "
         "'dst'?"),
        ("\nsrc,dst,start_us\n0,1,2", f"x, line 2: column 'bytes' is missing; {EXPECTED}"),
        ("src,dst,bytes,src\n0,1,2,3", f"x, line 1: column 'src' is there twice; {EXPECTED}"),
        (HEAD + "0,1,5\n", "x, line 2: 3 cells, expected 4 as in the header"),
        (HEAD + "0,1,5,0\n\n0,1,5,0,0\n", "x, line 4: 5 cells, expected 4 as in the header"),
        (HEAD + "0,1,5,0\n0,b,5,0\n", "x, line 3, cell 2: expected a number, got 'b'"),
        (HEAD + "0,1.5,5,0\n", "x, line 2, cell 2: expected a whole number, got '1.5'"),
        (HEAD + "0,1,,0\n", "x, line 2, cell 3: expected a number, got ''"),
        (HEAD + "0,1,2 MB,0\n", "x, line 2, cell 3: expected a number, got '2 MB'"),
        (HEAD + "0,1,5,nan\n", "x, line 2, cell 4: expected a number, got 'nan'"),
        (HEAD + "0,1,1e300,0\n",
         "x, line 2, cell 3: expected a whole number up to 2^53, got '1e300'"),
        (HEAD + "0,1,99999999999999999999,0\n", "x, line 2, cell 3: expected a whole number up to "
         "2^53, got '99999999999999999999'"),
        (HEAD + '0,1,"5\n6",0\n', "x: not a table of flows: a quoted cell spans lines"),
        (HEAD + '0,1,"5"6,0\n', "x: not a table of flows: ',' expected after '\"'"),
    ],
)  # fmt: skip
def test_what_is_no_table_of_flows(text, line):
    with pytest.raises(InputError) as caught:
        parse_flows(text.encode(), "x")
    assert str(caught.value) == line


def test_what_is_no_text():
    with pytest.raises(InputError, match=r"^x: not UTF-8 text$"):
        parse_flows(b"\xff\xfe", "x")


def test_a_file_is_measured_before_it_is_read(tmp_path):
    path = tmp_path / "flows.csv"
    path.touch()
    with path.open("r+b") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(InputError, match=r"256,000,001 bytes exceed the limit of 256,000,000$"):
        read_flows(path)
    with pytest.raises(InputError, match=r"flows: not a directory$"):
        read_flows(tmp_path / "flows.csv" / "x")


@pytest.mark.parametrize(
    ("row", "line"),
    [
        ("0,8,5,0", "x, line 3: dst 8: expected a host from 0 to 7"),
        ("-1,1,5,0", "x, line 3: src -1: expected a host from 0 to 7"),
        ("3,3,5,0", "x, line 3: host 3 sends to itself; expected another dst"),
        ("3,4,0,0", "x, line 3: 0 bytes: expected 1 to 4,398,046,511,104"),
        ("3,4,-5000,0", "x, line 3: -5,000 bytes: expected 1 to 4,398,046,511,104"),
        ("3,4,9007199254740992,0",
         "x, line 3: 9,007,199,254,740,992 bytes: expected 1 to 4,398,046,511,104"),
        ("3,4,5,-1", "x, line 3: starts at -1 us: expected 0 to 1e+09 us"),
        ("3,4,5,1e12", "x, line 3: starts at 1e+12 us: expected 0 to 1e+09 us"),
    ],
)  # fmt: skip
def test_flows_that_no_network_has(row, line):
    with pytest.raises(InputError) as caught:
        check_flows(parse_flows(f"{HEAD}0,1,5,0\n{row}\n".encode(), "x"), 8)
    assert str(caught.value) == line


def test_arrays():
    flows = make_flows([0, 1], np.array([1, 2]), 1000)
    assert flows.size_bytes.tolist() == [1000, 1000]
    assert flows.start_s.tolist() == [0.0, 0.0]
    assert len(make_flows(0, 1, 5, 1e-6)) == 1
    check_flows(flows, 3)


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        (([0, 1], [1], [1, 2, 3]),
         "flows: expected arrays of one axis and one length, got (2,), (1,), (3,), ()"),
        (([[0]], 1, 1),
         "flows: expected arrays of one axis and one length, got (1, 1), (), (), ()"),
        ((0.5, 1, 1), "flows: source: expected whole numbers up to 2^53"),
        ((0, float("nan"), 1), "flows: destination: expected whole numbers up to 2^53"),
        ((0, 1, 2.0**60), "flows: size_bytes: expected whole numbers up to 2^53"),
        ((0, 1, "2 MB"), "flows: size_bytes: expected numbers, got dtype('<U4')"),
        ((0, 1, 1, True), "flows: start_s: expected numbers, got dtype('bool')"),
    ],
)  # fmt: skip
def test_wrong_arrays(columns, line):
    with pytest.raises(InputError) as caught:
        make_flows(*columns)
    assert str(caught.value) == line


@pytest.mark.parametrize(
    ("flows", "line"),
    [
        (make_flows([], [], []), "flows: there are no flows; expected at least one"),
        (make_flows(0, np.ones(MAX_FLOWS + 1, np.int8), 1),
         "flows: 4,194,305 flows exceed the limit of 4,194,304"),
        (make_flows([0, 1, 5], 2, 1), "flows: flow 2: src 5: expected a host from 0 to 3"),
        (make_flows([0, 1, 5], 2, 1, name="mine"), "mine: flow 2: src 5: expected a host from 0 to "
         "3"),
        (make_flows(0, 1, 1, float("nan")), "flows: flow 0: starts at nan us: expected 0 to 1e+09 "
         "us"),
    ],
)  # fmt: skip
def test_arrays_that_no_network_has(flows, line):
    with pytest.raises(InputError) as caught:
        check_flows(flows, 4)
    assert str(caught.value) == line
