"""A table is a faithful, checked copy of its rows; what breaks the contract is named by row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis.data.table import SCHEMA, make_table, read_rows, read_table, write_table
from analysis.errors import AnalysisError
from registry.result_row import COLUMNS, Arm, Status
from tests.cases import cases

pytestmark = pytest.mark.filterwarnings("error")


def test_schema_names_every_column_of_the_contract():
    assert list(SCHEMA) == list(COLUMNS)


def test_rows_come_back_from_memory_and_from_parquet(tmp_path, lossy_rows):
    path = tmp_path / "rows.parquet"
    write_table(path, lossy_rows)
    assert read_rows(read_table(path)) == lossy_rows
    assert read_rows(make_table(lossy_rows)) == lossy_rows
    assert [entry.name for entry in tmp_path.iterdir()] == ["rows.parquet"]


def test_a_table_cannot_be_written_to(study_rows):
    with pytest.raises(ValueError, match="read-only"):
        make_table(study_rows)["score"][0] = 1.0


def test_an_empty_table_is_a_table(tmp_path):
    write_table(tmp_path / "none.parquet", [])
    assert len(read_table(tmp_path / "none.parquet")) == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        *cases(__file__, "refused"),
        ({"status": Status.MISSING}, "status 'missing' stands without a score"),
        ({"status": Status.MODEL_FAILURE}, "status 'model_failure' scores 0"),
    ],
)
def test_a_row_that_breaks_the_contract_is_named(row, given, said):
    rows = [row(instance="a"), row(instance="b", **given)]
    with pytest.raises(AnalysisError, match=rf"^rows: row 2: {said}"):
        make_table(rows)


def test_duplicates_are_refused_and_replicates_are_not(row):
    make_table([row(), row(replicate=1), row(grader="judge"), row(wave=1), row(model="n")])
    with pytest.raises(AnalysisError, match="row 2: repeats another row's wave, model"):
        make_table([row(), row(score=0.7)])


def test_an_instance_keeps_its_arm_and_stratum(row):
    with pytest.raises(AnalysisError, match="row 2: its instance has another arm"):
        make_table([row(), row(model="n", arm=Arm.PRIVATE)])
    with pytest.raises(AnalysisError, match="row 2: its instance has another stratum"):
        make_table([row(), row(model="n", stratum="compute_average/medium")])


def test_errors_name_no_instance_and_no_grade(row):
    bad = row(instance="sha256:private", arm=Arm.PRIVATE, score=1.2345)
    with pytest.raises(AnalysisError) as caught:
        make_table([bad])
    assert "private" not in str(caught.value)
    assert "1.2345" not in str(caught.value)


def test_parquet_that_is_not_ours_is_refused(tmp_path, study_rows):
    path = tmp_path / "rows.parquet"
    path.write_bytes(b"not parquet")
    with pytest.raises(AnalysisError, match=r"rows\.parquet: not a readable Parquet file"):
        read_table(path)
    write_table(path, study_rows)
    whole = pq.read_table(path)
    pq.write_table(whole.drop_columns(["arm"]), path)
    with pytest.raises(AnalysisError, match=r"rows\.parquet: no column arm; needed: wave"):
        read_table(path)
    at = whole.column_names.index("score")
    pq.write_table(whole.set_column(at, "score", pa.array(["1"] * len(whole))), path)
    with pytest.raises(AnalysisError, match="column score has type string; double is wanted"):
        read_table(path)


def test_a_file_of_before_a_column_lacks_its_values_and_nothing_else(tmp_path, study_rows):
    path = tmp_path / "rows.parquet"
    held = [replace(row, score_key=row.score, score_static=1.0) for row in study_rows]
    write_table(path, held)
    assert read_rows(read_table(path)) == held
    whole = pq.read_table(path)
    pq.write_table(whole.drop_columns(["score_key", "score_static"]), path)
    assert read_rows(read_table(path)) == study_rows


def test_a_null_where_none_may_stand_is_refused(tmp_path, study_rows):
    path = tmp_path / "rows.parquet"
    write_table(path, study_rows)
    whole = pq.read_table(path)
    models = pa.array([None, *whole["model"].to_pylist()[1:]])
    pq.write_table(whole.set_column(1, "model", models), path)
    with pytest.raises(AnalysisError, match="row 1: model is null"):
        read_table(path)


def test_a_failed_write_leaves_the_old_file(tmp_path, study_rows):
    path = tmp_path / "rows.parquet"
    write_table(path, study_rows)
    before = path.read_bytes()
    with pytest.raises(AnalysisError, match="wrong type"):
        write_table(path, [replace(study_rows[0], wave="one")])
    assert path.read_bytes() == before
    assert np.array_equal(read_table(path)["wave"], [r.wave for r in study_rows])
