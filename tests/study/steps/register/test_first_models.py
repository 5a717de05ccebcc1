"""The models of a first study: asked before the registration, and stand-ins named in the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from study.steps import pipeline
from study.steps.init.folder import init_study
from tests.cases import cases
from tests.harness.openai_server import completion, serve
from tests.study.cli.program import run
from tests.study.conftest import SMALLNESS, run_wave


@pytest.mark.parametrize("model", ["theirs", "name-at-the-server"])
def test_models_are_asked_and_stand_ins_are_a_deviation(tmp_path: Path, model: str) -> None:
    folder = tmp_path / "study"
    with serve(always=lambda request: completion("OK")) as served:
        init_study(folder, cases(__file__, "study").format(url=served.url, model=model))
        given = ("--study", str(folder), "--underpowered", SMALLNESS)
        done = run("register", *given)
        if model != "theirs":
            assert "study.yaml:7: models.new.model: write the name of a model" in done.stderr
            assert (done.exit_code, served.requests) == (2, [])
            return
        assert done.exit_code == 0, done.output
        assert "warning: model 'down' does not answer yet: provider: connection" in done.stderr
        assert [request["max_completion_tokens"] for request in served.requests] == [16]
        assert run("register", *given).exit_code == 0
        assert len(served.requests) == 1, "a registered study asks no more"
        study = pipeline.open_study(folder)
        run_wave(study, 0)
        assert "stand in" not in " ".join(pipeline.report(study)[0].deviations)
        pipeline.publish(study, None, lambda *step: None)
        run_wave(study, 1)
        (sentence,) = (d for d in pipeline.report(study)[0].deviations if "stand in" in d)
        assert "as controls (old)" in sentence
        path = folder / "study.yaml"
        path.write_text(path.read_text().replace("old", "older"))
        renamed = run("report", "--study", str(folder))
        assert renamed.exit_code == 3, renamed.output
        assert "registered is [old]: restore it" in renamed.stderr
