"""Templated strata in a look at the data."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.picard.breakdown_tables import make_tables
from analysis.picard.part import templates_part
from analysis.report.part import Part
from study.picard.answers import answers_of_rows, facts_of_study
from study.reporting.contributors import LookContext, LookShare


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
