"""The same results as a Parquet file whose column types come from the schema; pyarrow's door.

A file of the same rows and schema has the same bytes, as long as the same pyarrow writes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal, Inexact, InvalidOperation
from types import ModuleType
from typing import Any, Final

from casework.errors import ConfigurationError
from casework.json_pointer import pointer_to, value_at
from casework.runner.export import EMPTY_ROW, ExportRow, provenance
from casework.runner.output_columns import (
    MISFIT,
    Cell,
    Column,
    Kind,
    Misfit,
    column_at,
    columns_of,
    typed,
    united,
)
from casework.strict_json import JSON, JSONObject, canonical

OTHER: Final = "other"
"""Column of what no other column can hold: a JSON object, or nothing."""

GROUP_ROWS_MAX: Final = 4096
GROUP_BYTES_MAX: Final = 16 * 1024 * 1024
"""A row group ends at either; so much is held in memory, in the size of JSON."""

MONEY_DIGITS: Final = 38
MONEY_PLACES: Final = 18

_INTEGERS: Final = frozenset(
    {
        "analysis_revision",
        "http_status",
        "generation",
        "rounds_completed",
        "elapsed_ms",
        "review.number",
        "usage.prompt_tokens",
        "usage.completion_tokens",
        "usage.total_tokens",
    }
)
_STARTED_AT, _DECIDED_AT, _AMOUNT = "started_at", "review.decided_at", "cost.amount"
_EXACT: Final = Context(prec=MONEY_DIGITS, traps=[Inexact, InvalidOperation])
_INT64_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ParquetOptions:
    """What the table holds beside where each row came from."""

    schemas: Mapping[str, JSONObject]
    """The output schema of each operation of the pipeline."""
    pipeline_id: Callable[[str], str] = str
    """Gives the pipeline's id of an operation, whichever campaign it belongs to."""
    fields: tuple[str, ...] | None = None
    """JSON Pointers into the answers, one a column; None takes all that the schemas name."""


def parquet_chunks(rows: Iterable[ExportRow], options: ParquetOptions) -> Iterator[bytes]:
    """Yield the bytes of a Parquet file.

    The columns depend on the schemas alone, so that every export of a pipeline has the same ones. A
    value that its column cannot hold unchanged (an integer of more than 64 bits, a member that the
    schema does not name, an answer given under another schema) stands in the column ``other``
    under the column's name, and its own column is null.

    Args:
        rows: The rows; the answer of an operation without a schema stands in ``other`` as a whole.
        options: The columns.

    Raises:
        ConfigurationError: pyarrow is not installed; code ``extra_missing``.
        RunnerError: The schema has more columns than a table; code ``too_many_columns``.
    """
    arrow = _arrow()
    table = _Table.of(options)
    schema = arrow.schema(table.fields(arrow))
    sink = _Sink()
    writer = _writer(sink, schema)
    try:
        for group in _groups(rows):
            columns = zip(*map(table.cells, group), strict=True)
            arrays = [
                arrow.array(list(cells), type=field.type)
                for cells, field in zip(columns, schema, strict=True)
            ]
            writer.write_table(
                arrow.Table.from_arrays(arrays, schema=schema), row_group_size=GROUP_ROWS_MAX
            )
            yield sink.taken()
    finally:
        writer.close()
    yield sink.taken()


def require_pyarrow() -> None:
    """Make sure that Parquet can be written.

    Raises:
        ConfigurationError: pyarrow is not installed; code ``extra_missing``.
    """
    _arrow()


@dataclass(frozen=True, slots=True)
class _Table:
    """Places the values of a row under the columns."""

    columns: Mapping[str, Column]
    plans: Mapping[str, _Plan]
    options: ParquetOptions

    @classmethod
    def of(cls, options: ParquetOptions) -> _Table:
        schemas = options.schemas
        if options.fields is not None:
            named = {pointer: column_at(schemas.values(), pointer) for pointer in options.fields}
            return cls(named, {}, options)
        tables = {name: columns_of(schema) for name, schema in schemas.items()}
        plans = {name: _Plan.of(table) for name, table in tables.items()}
        return cls(united(tables.values()), plans, options)

    def fields(self, arrow: ModuleType) -> list[Any]:
        types = {
            Kind.INTEGER: arrow.int64(),
            Kind.NUMBER: arrow.float64(),
            Kind.STRING: arrow.string(),
            Kind.BOOLEAN: arrow.bool_(),
            Kind.JSON: arrow.string(),
        }
        special = {
            **dict.fromkeys((_STARTED_AT, _DECIDED_AT), arrow.timestamp("us", tz="UTC")),
            _AMOUNT: arrow.decimal128(MONEY_DIGITS, MONEY_PLACES),
            **dict.fromkeys(_INTEGERS, arrow.int64()),
        }
        names = provenance(EMPTY_ROW.to_json())
        fields = [arrow.field(name, special.get(name, arrow.string())) for name in names]
        for column in self.columns.values():
            kind = types[column.kind]
            form = {"casework": "json"} if column.kind is Kind.JSON else None
            fields.append(
                arrow.field(column.name, arrow.list_(kind) if column.is_list else kind, True, form)
            )
        return [*fields, arrow.field(OTHER, arrow.string(), True, {"casework": "json"})]

    def cells(self, row: ExportRow) -> tuple[object, ...]:
        """Return a row's values in the order of the fields."""
        placed = _Placed(self.columns)
        if self.options.fields is not None:
            for pointer in self.columns:
                placed.put(pointer, value_at(row.output, pointer))
        else:
            plan = self.plans.get(self.options.pipeline_id(row.operation_id), _NO_PLAN)
            placed.spread(row.output, "", plan)
        origin: list[object] = []
        for name, value in provenance(row.to_json()).items():
            cell = _origin(name, value, row)
            if isinstance(cell, Misfit):
                placed.other[name] = value
            origin.append(None if isinstance(cell, Misfit) else cell)
        answer = (placed.cells.get(pointer) for pointer in self.columns)
        other = canonical(placed.other).decode() if placed.other else None
        return (*origin, *answer, other)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where the values of one operation's answers go."""

    leaves: frozenset[str]
    above: frozenset[str]
    """Places that are taken apart."""

    @classmethod
    def of(cls, columns: Iterable[Column]) -> _Plan:
        leaves = frozenset(column.pointer for column in columns)
        above = set()
        for pointer in leaves:
            while pointer:
                pointer = pointer[: pointer.rindex("/")]  # noqa: PLW2901 - one step up
                above.add(pointer)
        return cls(leaves, frozenset(above))


_NO_PLAN: Final = _Plan(frozenset(), frozenset())


@dataclass(slots=True)
class _Placed:
    """The values of one answer, each under a column or among the others."""

    columns: Mapping[str, Column]
    cells: dict[str, Cell] = field(default_factory=dict)
    other: JSONObject = field(default_factory=dict)

    def spread(self, value: JSON, pointer: str, plan: _Plan) -> None:
        if pointer in plan.leaves:
            self.put(pointer, value)
        elif pointer in plan.above and isinstance(value, dict):
            for name, item in value.items():
                self.spread(item, pointer + pointer_to(name), plan)
        elif value is not None:
            self.other[Column(pointer, Kind.JSON).name] = value

    def put(self, pointer: str, value: JSON) -> None:
        column = self.columns[pointer]
        cell = typed(column, value)
        if isinstance(cell, Misfit):
            self.other[column.name] = value
        else:
            self.cells[pointer] = cell


def _origin(name: str, value: JSON, row: ExportRow) -> object:
    if value is None:
        return None
    if name == _STARTED_AT:
        return row.started_at
    if name == _DECIDED_AT:
        assert row.review is not None, "its time is not null"
        return row.review.decided_at
    if name == _AMOUNT:
        assert row.cost is not None, "its amount is not null"
        return _money(row.cost.amount)
    if name in _INTEGERS:
        assert isinstance(value, int)
        return value if abs(value) <= _INT64_MAX else MISFIT
    return value if isinstance(value, str) else json.dumps(value)


def _money(amount: Decimal) -> Decimal | Misfit:
    try:
        return amount.quantize(Decimal(1).scaleb(-MONEY_PLACES), context=_EXACT)
    except (Inexact, InvalidOperation):
        return MISFIT


def _groups(rows: Iterable[ExportRow]) -> Iterator[list[ExportRow]]:
    group: list[ExportRow] = []
    size = 0
    for row in rows:
        group.append(row)
        size += len(json.dumps(row.output))
        if len(group) >= GROUP_ROWS_MAX or size >= GROUP_BYTES_MAX:
            yield group
            group, size = [], 0
    if group:
        yield group


class _Sink:
    """A file for pyarrow whose bytes are taken away as they come."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._written = 0

    def write(self, content: bytes) -> int:
        self._parts.append(bytes(content))
        self._written += len(content)
        return len(content)

    def tell(self) -> int:
        return self._written

    def flush(self) -> None:
        return

    def close(self) -> None:
        return

    def taken(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


def _arrow() -> ModuleType:
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra, and heavy
    except ImportError:
        raise ConfigurationError(
            "Parquet needs pyarrow, which is not installed",
            code="extra_missing",
            where="export",
            remedy="pip install 'casework[parquet]'",
        ) from None
    module: ModuleType = pa
    return module


def _writer(sink: _Sink, schema: Any) -> Any:
    from pyarrow import parquet  # noqa: PLC0415 - an extra, and heavy

    return parquet.ParquetWriter(sink, schema, compression="snappy")
