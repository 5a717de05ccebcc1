"""Tables from elsewhere: read whole, or refused with one message that names file and row."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from analysis.data.import_file import read_graded_file, read_result_file
from analysis.errors import AnalysisError
from registry.result_row import Status
from tests.cases import cases

pytestmark = pytest.mark.filterwarnings("error")

HEAD = "model,arm,stratum,instance,score"
ROWS = ("m,public,t/easy,a,0.5", "m,private,t/easy,b,1")
OF_UNIT = tuple(f"{row},u" for row in ROWS)


def table(folder: Path, *rows: str, head: str = HEAD) -> Path:
    path = folder / "results.csv"
    path.write_text("\n".join((head, *rows)) + "\n", encoding="utf-8")
    return path


def test_the_least_table_is_read_with_defaults(tmp_path: Path) -> None:
    found = read_result_file(table(tmp_path, *ROWS))
    assert found["score"].tolist() == [0.5, 1.0]
    assert found["wave"].tolist() == [0, 0]
    assert set(found["status"]) == {Status.SCORED}
    assert found["family"].tolist() == ["t", "t"]
    assert set(found["grader"]) == {"deterministic"}


def test_looks_statuses_and_dimensions_are_read(tmp_path: Path) -> None:
    head = f"{HEAD},look,status,score_sr,passed,total,note"
    rows = ("m,public,t,a,0,3,model_failure,0.25,0,4,x", "m,private,t,b,,3,,,,,y")
    found = read_result_file(table(tmp_path, *rows, head=head))
    assert found["wave"].tolist() == [3, 3]
    assert found["status"].tolist() == ["model_failure", "missing"]
    assert found["score_sr"][0] == 0.25


OTHERS = (
    "update,updated,data,dated,rate,unite,scores,score_2,models,arms,instance_id,stratum_id,run_id,"
    "items,pass,turn,attempt,second,grade,graded,fraction,location,response,stats,tranche_id"
)


def test_columns_of_others_are_ignored(tmp_path: Path) -> None:
    values = ",".join("x" for _ in OTHERS.split(","))
    found = read_result_file(
        table(tmp_path, *(f"{r},{values}" for r in ROWS), head=f"{HEAD},{OTHERS}")
    )
    assert found["score"].tolist() == [0.5, 1.0]


def test_csv_gz_and_parquet_hold_the_same_table(tmp_path: Path) -> None:
    import pyarrow.csv
    import pyarrow.parquet

    plain = table(tmp_path, *ROWS)
    packed, columns = tmp_path / "r.csv.gz", tmp_path / "r.parquet"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(plain), columns)
    first = read_result_file(plain)
    for other in (read_result_file(packed), read_result_file(columns)):
        assert all((first[name] == other[name])[first[name] == first[name]].all()
                   for name in first.columns)  # fmt: skip


def test_names_that_look_like_numbers_stay_texts(tmp_path: Path) -> None:
    found = read_result_file(table(tmp_path, "007,public,t,1,0.5", "007,private,t,2,0.5"))
    assert found["model"].tolist() == ["007", "007"]
    assert found["instance"].tolist() == ["1", "2"]


@pytest.mark.parametrize(
    ("rows", "head", "said"),
    cases(__file__, "bad_tables"),
)  # fmt: skip
def test_a_bad_table_is_refused(
    tmp_path: Path, rows: tuple[str, ...], head: str, said: str
) -> None:
    path = table(tmp_path, *rows, head=head)
    with pytest.raises(AnalysisError, match=f"results.csv: .*{said}"):
        read_result_file(path)


def test_a_grader_is_chosen_by_name(tmp_path: Path) -> None:
    path = table(tmp_path, "m,public,t,a,1,x", "m,public,t,a,0,y", head=f"{HEAD},grader")
    assert read_result_file(path, grader="y")["score"].tolist() == [0.0]
    with pytest.raises(AnalysisError, match="no rows by grader 'z'; there are x, y"):
        read_result_file(path, grader="z")


def test_a_second_grader_is_kept_beside_the_first(tmp_path: Path) -> None:
    rows = ("m,public,t,a,1,x", "m,public,t,a,0,y", "m,public,t,a,0.5,z")
    path = table(tmp_path, *rows, head=f"{HEAD},grader")
    found = read_result_file(path, grader="y", second="x")
    assert list(zip(found["grader"], found["score"].tolist(), strict=True)) == [
        ("x", 1.0), ("deterministic", 0.0),
    ]  # fmt: skip
    with pytest.raises(AnalysisError, match="no rows by the second grader 'w'; there are x, z"):
        read_result_file(path, grader="y", second="w")
    with pytest.raises(AnalysisError, match=r"2 graders \(x, y\)"):
        read_result_file(path, second="z")


def test_columns_of_lists_are_refused(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    least = {"model": ["m"], "arm": ["public"], "stratum": ["t"], "instance": ["a"], "score": [1.0]}
    for name in ("grader", "status", "stratum"):
        path = tmp_path / "lists.parquet"
        pyarrow.parquet.write_table(pa.table(least | {name: [["x"]]}), path)
        with pytest.raises(AnalysisError, match=f"column {name} has type list"):
            read_result_file(path)


def test_files_that_are_no_tables_are_refused(tmp_path: Path) -> None:
    for name, content, said in (
        ("a.parquet", b"PAR1 no", "not a readable Parquet file"),
        ("a.csv", b"\xff\xfe\x00", "not a readable CSV file|no column|is UTF-16"),
        ("a.txt", b"x", "a table is a .csv, .csv.gz or .parquet file"),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(AnalysisError, match=f"{name}: ({said})"):
            read_result_file(path)
    with pytest.raises(AnalysisError, match="no such file"):
        read_result_file(tmp_path / "none.csv")


HEADER = "model,arm,stratum,instance,score\n"
TWO = HEADER + "{},public,s/easy,i,0.5\n{},private,s/easy,j,0.5\n"


@pytest.mark.parametrize(
    ("text", "encoding", "said"),
    [
        (HEADER.replace(",", ";") + "a;public;s/easy;i;0,5\n", "utf-8", "is separated by ';'"),
        (HEADER.replace(",", "\t") + "a\tpublic\ts/easy\ti\t0.5\n", "utf-8", "by tabs"),
        (HEADER.replace(",", "|") + "a|public|s/easy|i|0.5\n", "utf-8", "is separated by '"),
        (TWO.format("old", "o\u200bld"), "utf-8", "model: 'old' and"),
        (HEADER + "a,public,s/easy,i,0.5\n", "utf-16", "is UTF-16; write it as UTF-8"),
        (TWO.format("old", "old "), "utf-8", "model: 'old' and 'old ' differ by blanks"),
        (TWO.format("caf\u00e9", "cafe\u0301"), "utf-8", r"'caf\\xe9' and 'cafe\\u0301' differ"),
    ],
    ids=["semicolons", "tabs", "bars", "no width", "utf-16", "blank", "normal form"],
)
def test_what_spreadsheets_write_is_refused_by_its_cause(
    tmp_path: Path, text: str, encoding: str, said: str
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(text, encoding=encoding)
    with pytest.raises(AnalysisError, match=said):
        read_result_file(path)


def test_a_run_that_another_model_has_is_owed_and_missing_if_it_is_absent(tmp_path: Path) -> None:
    """By look and tranche, and as often as the model ran the others of the arm and stratum."""
    rows = [f"{m},public,t,{i},1,{r},0" for m in "ab" for i in "uvw" for r in range(1 + (m == "b"))]
    rows += ["a,private,t,x,1,0,0", "a,private,t,y,1,0,1", "b,private,t,x,1,0,0"]
    rows = [row for row in rows if row not in ("a,public,t,w,1,0,0", "b,public,t,v,1,1,0")]
    found = read_result_file(table(tmp_path, *rows, head=f"{HEAD},replicate,tranche"))
    added = found.where(found["status"] == Status.MISSING)
    assert {*zip(added["model"], added["instance"], strict=True)} == {("a", "w"), ("b", "v")}
    assert set(added["error_class"]) == {"absent row"}
    assert set(added["arm"]) == {"public"}


def test_what_was_allotted_is_the_instance_of_the_test(tmp_path: Path) -> None:
    rows = [f"{m},{a},t,{a}{d}{q},1,{a}{d}" for m in "ab" for a in ("public", "private")
            for d in "12" for q in range(3)]  # fmt: skip
    found = read_graded_file(table(tmp_path, *rows[:-1], head=f"{HEAD},unit"))
    assert found.by_unit
    assert set(found.table["instance"]) == {"public1", "public2", "private1", "private2"}
    assert len(found.table) == len(rows), "a question that is absent is missing of its document"
    mixed = table(tmp_path, *rows, "a,private,t,z,1,public1", head=f"{HEAD},unit")
    with pytest.raises(AnalysisError, match=r"by unit: row 25.*another arm"):
        read_graded_file(mixed)
