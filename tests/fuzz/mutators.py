"""Mutations of files: bytes, lines, JSON and YAML trees, arrays, safetensors and Parquet files."""

from __future__ import annotations

import contextlib
import io
import json
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet as pq
from safetensors.numpy import load, save
from tests.fuzz.inputs import Files

from overtrick.config.strict_yaml import parse_yaml
from overtrick.storage import parquet

DEEP = 2000  # levels of nesting
UNUSUAL_JSON = (
    "null", "true", "false", "0", "-1", "1", "2", "3.5", "-0.0", "1e400", "-1e400", "NaN",
    "Infinity", "-Infinity", "1e-300", "9223372036854775808", "-9223372036854775809",
    "1" + "0" * 400, "7" * 5000, '""', '" "', '"nan"', '"0"', '"\\u2028"', '"a\\nb"', '"\\ud800"',
    '"\\u0000"', '"/"', '".."', '"models:/x/1"', '"sqlite:///"', '"random"', '"leduc"',
    "[]", "{}", "[null]", "[[]]", "[-1]", "[0, 0]", '[""]', '{"": 0}', '{"name": null}',
    '{"a": {"a": {"a": 0}}}', "[" * DEEP + "]" * DEEP, '{"a":' * DEEP + "0" + "}" * DEEP,
)  # fmt: skip
"""Texts of JSON values; some are accepted by Python's parser only."""
UNUSUAL_YAML = (
    "2020-02-30", "2020-01-01", "2020-01-01 10:00:00", ".nan", ".inf", "-.inf", "~", "1:60:60",
    "1" + ":0" * 200_000, "!!int 1:1", "!!map [1]", "0x" + "f" * 5000,
    "0b1", "1_000", "!!binary aGk=", "!!binary a", "!!set {a, b}",
    "!!omap [a: 1]", "!!pairs [a: 1]", "!!timestamp x", "!!int x", "!!float x", "!!bool x",
    "!!python/object:os.system {}", "!unknown x", "&a [*a]", "&a {b: *a}", "*missing", "{? [1]: 2}",
    "{1: 2}", "{null: 2}", "{.nan: 1}", "{true: 1}", "{2020-01-01: 1}", "{<<: 1}", "{<<: {a: 1}}",
    "=", "<<", "|", "- a", "'", '"\\x', "@", "`", "\u2028", "\x85", "\ufeff", "\x07", "a: b: c",
    "[&x [1, 1], &y [*x, *x], &z [*y, *y], [*z, *z]]",
)  # fmt: skip
"""Texts of YAML values."""
UNUSUAL_TEXT = (
    "", " ", "\n", "\t", "\x00", "\u2028", "\u2029", "\x85", "\x0b", "\ufeff", "é", "\u0660",
    "²", "\U0001f0a1", "%s", "{}", "{0}", "$HOME", "`", "'", '"', "\\", "/", "..", "../..", "~",
    "-", "--", "=", "==", ":", "#", "*", "[", "]", "(", ")", "0", "-1", "1e999", "nan", "9" * 30,
    "9" * 5000, "(" * 300, "not " * 300, "a" * 5000, "models:/", "models:/x", "x/y/z",
)  # fmt: skip
DTYPES = ("?", "i1", "u1", "i2", "i4", "i8", "u8", "f2", "f4", "f8", "c8", "S3", "U2", "M8[s]", "O")
NUMBERS = (0, 1, -1, 2, 3, 5, 13, 51, 52, 127, 128, 255, 32767, -32768, 2**31 - 1, 2**62, -(2**62))
REALS = (*NUMBERS, 0.5, 1e-300, 1e300, np.nan, np.inf, -np.inf, -0.0)


def mutate(rng: Random, files: Files, kinds: dict[str, parquet.Kind]) -> Files:
    """Return a copy of an input with one to three mutations of its files.

    `kinds`: kinds of this project's Parquet files; the keys are endings of file names. After most
    mutations of such a file its digest is recomputed, so that later checks than that of the digest
    are tested too.
    """
    changed = dict(files)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        name = rng.choice(sorted(changed))
        kind = next((kind for end, kind in kinds.items() if name.endswith(end)), None)
        changed[name] = mutate_file(rng, name, changed[name], kind)
        if rng.random() < 0.01 and len(changed) > 1:
            del changed[name]
    return changed


def mutate_file(rng: Random, name: str, content: bytes, kind: parquet.Kind | None) -> bytes:
    """Return a mutated copy of a file: mostly in a way for its format, sometimes of any bytes.

    `kind`: the kind of this project's Parquet file; None for another file.
    """
    if rng.random() < 0.15:
        return mutate_bytes(rng, content)
    try:
        return mutate_by_format(rng, name, content, kind)
    except Exception:  # an earlier mutation has damaged the file, or it cannot be written
        return mutate_bytes(rng, content)


def mutate_by_format(rng: Random, name: str, content: bytes, kind: parquet.Kind | None) -> bytes:
    """Return a copy of an intact file that is mutated by its format, the suffix of its name.

    Raises any error if the file is damaged, or if what was changed cannot be written.
    """
    way = BY_SUFFIX.get(Path(name).suffix, mutate_text)
    ours = way is mutate_parquet and parquet.KEY in content
    if ours and kind is not None and rng.random() < 0.8:
        return mutate_stored_table(rng, content, kind)
    return way(rng, content)


def mutate_bytes(rng: Random, content: bytes) -> bytes:
    """Flip, delete, insert, repeat, overwrite or cut bytes."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        at = rng.randrange(len(data) + 1)
        length = min(rng.choice((1, 1, 2, 4, 16, 200)), len(data) - at)
        way = rng.randrange(6)
        if way == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif way == 1:
            del data[at : at + length]
        elif way == 2:
            data[at:at] = bytes(rng.choices((0, 10, 32, 34, 123, 127, 128, 195, 255), k=3))
        elif way == 3:
            data[at:at] = data[at : at + length] * rng.choice((1, 2, 50))
        elif way == 4 and data:
            start = rng.randrange(len(data))
            data[at : at + length] = data[start : start + length]
        elif way == 5 and rng.random() < 0.2:
            del data[at:]
    return bytes(data)


def mutate_text(rng: Random, content: bytes) -> bytes:
    """Delete, repeat, swap, join or cut lines and words, or put unusual text in them."""
    text = content.decode(errors="surrogateescape")
    for _ in range(rng.choice((1, 1, 2, 4))):
        mark = rng.choice(("\n", "\n", " ", "|", "\t", ":", ".", '"'))
        parts = text.split(mark)
        at = rng.randrange(len(parts))
        way = rng.randrange(8)
        if way == 0 and len(parts) > 1:
            del parts[at]
        elif way == 1:
            parts[at:at] = parts[at : at + 1] * rng.choice((1, 2, 100))
        elif way == 2:
            other = rng.randrange(len(parts))
            parts[at], parts[other] = parts[other], parts[at]
        elif way == 3:
            parts[at] = unusual_text(rng)
        elif way == 4:
            parts.insert(at, unusual_text(rng))
        elif way == 5:
            place = rng.randrange(len(parts[at]) + 1)
            parts[at] = parts[at][:place] + unusual_text(rng) + parts[at][place:]
        elif way == 6 and parts[at]:
            place = rng.randrange(len(parts[at]))
            drawn = rng.choice("0123456789NESWCDHSPXAKQJT-+.,;:|<>=()[]{}\"'# \t")
            parts[at] = parts[at][:place] + drawn + parts[at][place + 1 :]
        elif way == 7:
            parts[at] = parts[at][: rng.randrange(len(parts[at]) + 1)]
        text = mark.join(parts)
    return text.encode(errors="surrogateescape")


def unusual_text(rng: Random) -> str:
    """Return a text that few programs expect."""
    return rng.choice(UNUSUAL_TEXT)


def mutate_json(rng: Random, content: bytes) -> bytes:
    """Change values and keys of a JSON tree; a new value may be invalid JSON, such as NaN."""
    return _mutate_tree(rng, content, json.loads, UNUSUAL_JSON)


def mutate_yaml(rng: Random, content: bytes) -> bytes:
    """Change values and keys of a YAML tree, or lines of its text."""
    if rng.random() < 0.3:
        return mutate_text(rng, content)
    return _mutate_tree(rng, content, parse_yaml, (*UNUSUAL_JSON, *UNUSUAL_YAML))


def mutate_json_lines(rng: Random, content: bytes) -> bytes:
    """Change the JSON tree of one line, or the lines."""
    lines = content.split(b"\n")
    if rng.random() < 0.3:
        return mutate_text(rng, content)
    at = rng.randrange(len(lines))
    lines[at] = mutate_json(rng, lines[at])
    return b"\n".join(lines)


def _mutate_tree(
    rng: Random, content: bytes, parse: Callable[[str], Any], unusual: tuple[str, ...]
) -> bytes:
    """Change nodes of a tree and write it as JSON; unusual values are inserted as literal text."""
    tree = parse(content.decode())
    raw: dict[str, str] = {}
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        tree = _change_node(rng, tree, unusual, raw)
    text = json.dumps(tree, indent=rng.choice((None, 1)), default=str)
    for placeholder, value in raw.items():
        text = text.replace(f'"{placeholder}"', value)
    return text.encode(errors="surrogateescape")


def _change_node(rng: Random, tree: Any, unusual: tuple[str, ...], raw: dict[str, str]) -> Any:
    """Change one random node of a tree in place; return the tree, or the root's replacement.

    `raw`: filled in place: the literal text of each unusual value, by its placeholder in the tree.
    """

    def drawn() -> str:
        placeholder = f"@unusual{len(raw)}@"
        raw[placeholder] = rng.choice(unusual)
        return placeholder

    places: list[tuple[Any, Any]] = []
    todo = [tree]
    while todo:
        node = todo.pop()
        keys = list(node) if isinstance(node, dict) else []
        keys = list(range(len(node))) if isinstance(node, list) else keys
        places += [(node, key) for key in keys]
        todo += [node[key] for key in keys if isinstance(node[key], dict | list)]
    if not places or rng.random() < 0.01:
        return drawn()
    node, key = rng.choice(places)
    way = rng.randrange(8)
    other, of = rng.choice(places)
    if way == 0:
        del node[key]
    elif way == 1 and isinstance(node, dict):
        node[rng.choice(("", "name", "x", " ", "\u2028", "\ud800", "0", str(of)))] = drawn()
    elif way == 2 and isinstance(node, dict):
        node[rng.choice((f"{key} ", f"{key}x", str(of), str(key).upper()))] = node.pop(key)
    elif way == 3:
        node[key] = _copy(other[of])
    elif way == 4 and isinstance(node[key], int | float):
        node[key] = rng.choice((node[key] + 1, -node[key], node[key] * 1000, node[key] + 0.5))
    elif way == 5 and isinstance(node[key], str):
        node[key] += unusual_text(rng)
    else:
        node[key] = drawn()
    return tree


def _copy(value: Any) -> Any:
    return json.loads(json.dumps(value))


def mutate_array(rng: Random, array: np.ndarray) -> np.ndarray:  # noqa: PLR0911
    """Change the type, the shape, the order or some values of an array."""
    way = rng.randrange(9)
    kinds = array.dtype.kind
    if way == 0:
        # text becomes no date: numpy can die of signal 11 there
        types = [each for each in DTYPES if kinds not in "SU" or each[0] != "M"]
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            return array.astype(rng.choice(types))
    elif way == 1 and array.ndim:
        axis = rng.randrange(array.ndim)
        return np.take(array, range(rng.randrange(array.shape[axis] + 1)), axis)
    elif way == 2:
        return array.reshape(-1)
    elif way == 3:
        return array[None] if rng.random() < 0.5 or not array.ndim else array.T
    elif way == 4 and array.ndim:
        return np.concatenate([array, array], rng.randrange(array.ndim))
    elif way == 5:
        return np.zeros(rng.choice(((), (0,), (1,), (0, 4), (2, 3))), array.dtype)
    changed = array.copy().reshape(-1)
    if len(changed) and kinds in "?iufO":
        count = rng.choice((1, 1, 1, 3, len(changed)))
        values = REALS if kinds in "fO" else NUMBERS
        for _ in range(min(count, 50)):
            value = rng.choice(values)
            if kinds in "iu":
                limits = np.iinfo(array.dtype)
                value = min(max(value, limits.min), limits.max)
            if kinds == "O":
                value = rng.choice((None, "", unusual_text(rng)[:50], str(value)))
            with np.errstate(over="ignore"):
                changed[rng.randrange(len(changed))] = value
    return changed.reshape(array.shape)


def mutate_npy(rng: Random, content: bytes) -> bytes:
    """Change the array or the header of a .npy file."""
    if rng.random() < 0.5 and content[:6] == b"\x93NUMPY":
        length = struct.unpack("<H", content[8:10])[0]
        head = mutate_text(rng, content[10 : 10 + length])[:60000]
        return content[:8] + struct.pack("<H", len(head)) + head + content[10 + length :]
    array = np.load(io.BytesIO(content), allow_pickle=False)
    out = io.BytesIO()
    np.save(out, mutate_array(rng, array), allow_pickle=True)
    return out.getvalue()


def mutate_safetensors(rng: Random, content: bytes) -> bytes:
    """Change arrays, names or the header of a safetensors file."""
    size = struct.unpack("<Q", content[:8])[0]
    head, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    if rng.random() < 0.2:
        text = mutate_json(rng, content[8 : 8 + size])
        return struct.pack("<Q", len(text)) + text + data
    if rng.random() < 0.1:
        names = [name for name in head if name != "__metadata__"]
        if names:
            types = ("BF16", "F16", "F8_E4M3", "F8_E5M2", "I64", "BOOL", "U8", "F64", "C64", "F4")
            head[rng.choice(names)]["dtype"] = rng.choice(types)
        text = json.dumps(head).encode()
        return struct.pack("<Q", len(text)) + text + data
    arrays = load(content)
    name = rng.choice(sorted(arrays))
    way = rng.randrange(6)
    if way == 0:
        del arrays[name]
    elif way == 1:
        arrays[rng.choice((f"{name}x", "", "sigma", "policy.w9", "seat_9.policy.w0", "é"))] = (
            arrays.pop(name)
        )
    elif way == 2:
        arrays[rng.choice((f"{name}0", "policy.w9", "critic.w0", "x"))] = arrays[name]
    else:
        arrays[name] = mutate_array(rng, arrays[name])
    return save({n: np.ascontiguousarray(a) for n, a in arrays.items()})


def mutate_stored_table(rng: Random, content: bytes, kind: parquet.Kind) -> bytes:
    """Change columns or parameters of this project's Parquet file, and recompute its digest."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        path.write_bytes(content)
        stored = parquet.load(path, kind)
        columns, parameters = dict(stored.columns), stored.parameters
        for _ in range(rng.choice((1, 1, 2))):
            name = rng.choice(sorted(columns))
            way = rng.randrange(8)
            if way == 0:
                del columns[name]
                columns = columns or {"x": np.zeros(1)}
            elif way == 1:
                columns[f"{name}x"] = columns.pop(name)
            elif way <= 3:
                changed = mutate_json(rng, json.dumps(parameters).encode())
                with contextlib.suppress(ValueError, RecursionError):
                    parameters = json.loads(changed)
            elif way == 4:
                rows = len(columns[name])
                keep = rng.choices(range(rows), k=rng.randrange(rows + 1)) if rows else []
                columns = {n: c[keep] if len(c) == rows else c for n, c in columns.items()}
            else:
                columns[name] = mutate_array(rng, columns[name])
        _save_table(path, kind, parameters, columns)
        return path.read_bytes()


def _save_table(path: Path, kind: parquet.Kind, parameters: Any, columns: dict[str, Any]) -> None:
    if isinstance(parameters, dict):
        parquet.save(path, kind, parameters, columns)
        return
    parquet.save(path, kind, {}, columns)
    table = pq.read_table(path)
    about = json.loads(table.schema.metadata[parquet.KEY])
    about["parameters"] = parameters
    del about["digest"]
    about["digest"] = parquet._digest(about, columns)
    metadata = {parquet.KEY: json.dumps(about)}
    pq.write_table(table.replace_schema_metadata(metadata), path)


def mutate_parquet(rng: Random, content: bytes) -> bytes:
    """Change columns or the metadata of any Parquet file."""
    table = pq.read_table(io.BytesIO(content))
    way = rng.randrange(6)
    out = io.BytesIO()
    if way == 0 and table.schema.metadata:
        changed = {k: mutate_json(rng, v) for k, v in table.schema.metadata.items()}
        table = table.replace_schema_metadata(changed)
    elif way == 1:
        table = table.remove_column(rng.randrange(table.num_columns))
    elif way == 2:
        names = list(table.column_names)
        names[rng.randrange(len(names))] = rng.choice((*names, "", "é", "x"))
        table = table.rename_columns(names)
    elif way == 3:
        table = table.slice(0, rng.randrange(table.num_rows + 1))
    else:
        at = rng.randrange(table.num_columns)
        column = _unusual_column(rng, table.column(at))
        table = table.set_column(at, table.column_names[at], column)
    pq.write_table(table, out)
    return out.getvalue()


def _unusual_column(rng: Random, column: pa.ChunkedArray) -> pa.Array:
    """Return a column of the same length with unusual values or of another type."""
    values = column.to_pylist()
    rows = len(values)
    way = rng.randrange(8)
    if way <= 2:
        for _ in range(rng.choice((1, 1, 3))):
            if rows:
                at = rng.randrange(rows)
                text = mutate_text(rng, str(values[at]).encode()).decode(errors="replace")
                values[at] = rng.choice((None, text, text, unusual_text(rng)[:300]))
                if not isinstance(values[at], str | None) or column.type != pa.string():
                    values = [None if each is None else str(each) for each in values]
        return pa.array(values, pa.string())
    if way == 3:  # text that is not UTF-8
        texts = [str(each).encode() for each in values]
        for _ in range(3):
            if rows:
                texts[rng.randrange(rows)] = rng.choice((b"\xff\xfe", b"\xed\xa0\x80", b"N:\x80"))
        binary = pa.array(texts, pa.binary())
        return pa.Array.from_buffers(pa.string(), rows, binary.buffers())
    kinds = (
        pa.int8(), pa.int64(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.bool_(),
        pa.date32(), pa.timestamp("s"), pa.timestamp("us", "Mars/Base"), pa.duration("s"),
        pa.time64("us"), pa.list_(pa.int64()), pa.list_(pa.string()), pa.null(), pa.large_string(),
        pa.struct([("a", pa.int64())]), pa.map_(pa.string(), pa.int64()), pa.decimal128(5, 2),
        pa.dictionary(pa.int32(), pa.string()), pa.binary(3), pa.binary(),
    )  # fmt: skip
    kind = rng.choice(kinds)
    number = rng.choice((0, -1, 1, 127, 2**40, 2**62, -(2**62)))
    if pa.types.is_temporal(kind):
        width = 32 if kind == pa.date32() else 64
        raw = pa.array([min(number, 2**31 - 1) if width == 32 else number] * rows, f"int{width}")
        return raw.view(kind)
    with contextlib.suppress(pa.ArrowException, ValueError, TypeError, OverflowError):
        samples = {
            pa.string(): unusual_text(rng), pa.list_(pa.int64()): [number],
            pa.list_(pa.string()): [None, "x"], pa.struct([("a", pa.int64())]): {"a": number},
            pa.map_(pa.string(), pa.int64()): [("a", 1)], pa.bool_(): True, pa.null(): None,
            pa.binary(3): b"\xff\x00a", pa.binary(): b"\xff\xfe", pa.large_string(): "é",
            pa.dictionary(pa.int32(), pa.string()): "x",
        }  # fmt: skip
        real = rng.choice(REALS) if pa.types.is_floating(kind) else number
        return pa.array([samples.get(kind, real)] * rows, kind)
    return pa.array([None] * rows, kind)


BY_SUFFIX: dict[str, Callable[[Random, bytes], bytes]] = {
    ".json": mutate_json,
    ".jsonl": mutate_json_lines,
    ".yaml": mutate_yaml,
    ".npy": mutate_npy,
    ".safetensors": mutate_safetensors,
    ".parquet": mutate_parquet,
}
