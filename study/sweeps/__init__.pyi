from .exposure_ledger import (
    Burned,
    burned_of_wave,
    burned_tranches,
    declare_leak,
    keeps_nothing,
)
from .preview import Rendered, RenderedJudge, judge_json, render_wave, rendered_json, share_texts
from .spending import (
    ALLOW,
    OVER_BUDGET,
    Caller,
    CallResult,
    Pricing,
    attempt_turns,
    lock_budget,
    open_budget,
    price_judges,
    price_models,
    sum_calls,
)
from .sweep import SweepOutcome, SweepRequest, sweep_wave
from .waves import close_wave_now, list_waves, open_wave

__all__ = [
    "ALLOW",
    "OVER_BUDGET",
    "Burned",
    "CallResult",
    "Caller",
    "Pricing",
    "Rendered",
    "RenderedJudge",
    "SweepOutcome",
    "SweepRequest",
    "attempt_turns",
    "burned_of_wave",
    "burned_tranches",
    "close_wave_now",
    "declare_leak",
    "judge_json",
    "keeps_nothing",
    "list_waves",
    "lock_budget",
    "open_budget",
    "open_wave",
    "price_judges",
    "price_models",
    "render_wave",
    "rendered_json",
    "share_texts",
    "sum_calls",
    "sweep_wave",
]
