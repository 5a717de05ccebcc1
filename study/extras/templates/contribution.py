"""Templated strata in a look at the data."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.report.part import Part
from analysis.templates.breakdown_tables import make_tables
from analysis.templates.part import templates_part
from study.extras.templates.answers import answers_of_rows, facts_of_study
from study.steps.report.contributors import LookContext, LookShare


class TemplatesShare(LookShare):
    """The share of the strata that come from template files."""

    def parts(self, look: LookContext) -> Sequence[Part]:
        """Return the part with their tables; none if there are no such strata."""
        facts = facts_of_study(self.scope.study.protocol)
        if not facts:
            return ()
        answers = answers_of_rows(look.rows, facts)
        return (templates_part(make_tables(answers, look.digest, of_study=True)),)


look = TemplatesShare
