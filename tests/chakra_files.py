"""Chakra execution traces made by hand, with no more than the fields that are given."""


def varint(value):
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def field(number, value):
    """A field of a message: a whole number, a text, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(content)) + content


def delimited(message):
    return varint(len(message)) + message


def attribute(name, value):
    kinds = {bool: 27, int: 9, str: 29}
    if isinstance(value, list):
        return field(1, name) + field(28, field(1, bytes(value)))
    number = kinds[type(value)]
    return field(1, name) + field(number, int(value) if number == 27 else value)


def node(number, kind, *, after=(), callers=(), micros=0, name="node", **attributes):
    """A node; `after` are data dependencies, `callers` control dependencies."""
    parts = [field(1, number), field(2, name), field(3, kind)]
    parts += [field(4, one) for one in callers]
    parts += [field(5, b"".join(map(varint, after)))] * bool(after)
    parts += [field(7, micros)] * bool(micros)
    parts += [field(10, attribute(key, value)) for key, value in attributes.items()]
    return b"".join(parts)


def content(*nodes, version="0.0.4"):
    return b"".join(map(delimited, [field(1, version) if version else b"", *nodes]))


def write(folder, *ranks, name="job"):
    """A folder with a file per rank, each of which is a list of nodes."""
    folder.mkdir(exist_ok=True)
    for rank, nodes in enumerate(ranks):
        (folder / f"{name}.{rank}.et").write_bytes(content(*nodes))
    return folder
