"""Building blocks of a program: functions of a list of integers, each with its docstring.

A block draws names and constants, and returns the source with the values at which the function
changes its behaviour, so that inputs can lie there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from textwrap import dedent, indent, wrap

from generators.stream import Stream

_WIDTH = 84
_VERBS = (
    "assess audit balance collect compile count derive digest draft enter estimate file fold "
    "grade index log measure merge note order pack plan post price process rank rate record "
    "review route score screen settle shape sift sort stage stamp sum tally track trim value "
    "weigh"
)
_NOUNS = (
    "accounts arrivals barrels bids bonds boxes cargoes claims coupons crates deliveries "
    "deposits entries fares fees fines flows gains goods grants invoices items leases levels "
    "loads loans losses lots offers orders parcels payments plots points pledges prices "
    "quotas ratings readings receipts refunds rents returns rolls scores shares shipments "
    "signals slots stakes stocks tenders taxes tickets tips tolls trades units visits votes "
    "wages weights yields"
)
_TOTALS = ("amount", "balance", "result", "state", "tally", "total")
_ITEMS = ("entry", "item", "number", "value")
_LISTS = ("chosen", "collected", "found", "kept", "output", "results")
_WORDS = {"<": "less than", "<=": "at most", ">": "more than", ">=": "at least"}


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a program: its source; and values, and differences of neighbouring values,
    at which it changes its behaviour."""

    name: str
    source: str
    edges: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Names:
    """The names in a function: of itself, its argument, an element, a running total, a list."""

    function: str
    argument: str
    item: str
    total: str
    kept: str


Block = Callable[[Stream, _Names], Function]


def name_functions(draws: Stream, count: int) -> tuple[tuple[str, str], ...]:
    """Names of functions, all different, each with that of its argument."""
    verbs, nouns = draws.shuffle(_VERBS.split())[:count], draws.shuffle(_NOUNS.split())[:count]
    return tuple((f"{verb}_{noun}", noun) for verb, noun in zip(verbs, nouns, strict=True))


def build(block: Block, draws: Stream, name: tuple[str, str]) -> Function:
    """The function that a block makes with these draws."""
    item, total, kept = draws.choice(_ITEMS), draws.choice(_TOTALS), draws.choice(_LISTS)
    return block(draws, _Names(*name, item, total, kept))


def combine(name: tuple[str, str], outer: str, inner: str) -> Function:
    """A function that passes what one function returns to another."""
    function, argument = name
    doc = f"Return what {outer} returns for the result of {inner}."
    return Function(
        function, _write(function, argument, doc, f"return {outer}({inner}({argument}))")
    )


def _write(function: str, argument: str, doc: str, body: str) -> str:
    paragraph = "\n".join(wrap(f'"""{doc}"""', _WIDTH))
    text = indent(f"{paragraph}\n{dedent(body).strip()}", "    ")
    return f"def {function}({argument}):\n{text}\n"


def _weighted_total(draws: Stream, names: _Names) -> Function:
    start, factor = draws.integer(2, 60), draws.integer(3, 9)
    sign, limit = draws.choice(tuple(_WORDS)), draws.integer(5, 60)
    doc = (
        f"Return {start} plus {factor} times the sum of those {names.argument} that are "
        f"{_WORDS[sign]} {limit}."
    )
    body = f"""
        {names.total} = {start}
        for {names.item} in {names.argument}:
            if {names.item} {sign} {limit}:
                {names.total} += {factor} * {names.item}
        return {names.total}
    """
    return Function(names.function, _write(names.function, names.argument, doc, body), (limit,))


def _by_position(draws: Stream, names: _Names) -> Function:
    period, offset = draws.integer(2, 4), draws.integer(2, 9)
    phase = draws.integer(0, period - 1)
    doc = (
        f"Count positions from 0. Add up the {names.argument}, each times its position plus "
        f"{offset}; subtract it where the position divided by {period} leaves {phase}."
    )
    body = f"""
        {names.total} = 0
        for place, {names.item} in enumerate({names.argument}):
            if place % {period} == {phase}:
                {names.total} -= (place + {offset}) * {names.item}
            else:
                {names.total} += (place + {offset}) * {names.item}
        return {names.total}
    """
    return Function(names.function, _write(names.function, names.argument, doc, body))


def _checksum(draws: Stream, names: _Names) -> Function:
    start, factor, modulus = draws.integer(2, 90), draws.integer(3, 40), draws.integer(200, 9000)
    limit = draws.integer(10, 60)
    doc = (
        f"Begin with {start}. For each of the {names.argument} that is at least {limit}, multiply "
        f"by {factor}, add it, and keep the remainder of the division by {modulus}."
    )
    body = f"""
        {names.total} = {start}
        for {names.item} in {names.argument}:
            if {names.item} >= {limit}:
                {names.total} = ({names.total} * {factor} + {names.item}) % {modulus}
        return {names.total}
    """
    return Function(names.function, _write(names.function, names.argument, doc, body), (limit,))


def _with_fee(draws: Stream, names: _Names) -> Function:
    start, fee, floor = draws.integer(20, 150), draws.integer(3, 25), draws.integer(1, 15)
    doc = (
        f"Begin with {start} and add the {names.argument} one after another. A negative one "
        f"costs {fee} on top. Whenever the result is below {floor}, it becomes {floor}."
    )
    body = f"""
        {names.total} = {start}
        for {names.item} in {names.argument}:
            if {names.item} < 0:
                {names.total} -= {fee}
            {names.total} += {names.item}
            {names.total} = max({names.total}, {floor})
        return {names.total}
    """
    return Function(names.function, _write(names.function, names.argument, doc, body), (0,))


def _tiers(draws: Stream, names: _Names) -> Function:
    low = draws.integer(-40, 5)
    high = low + draws.integer(15, 50)
    rates = draws.shuffle(range(2, 12))[:3]
    doc = (
        f"Add up the {names.argument} at rates: times {rates[0]} up to and with {low}, times "
        f"{rates[1]} above that up to and with {high}, and times {rates[2]} above."
    )
    body = f"""
        {names.total} = 0
        for {names.item} in {names.argument}:
            if {names.item} <= {low}:
                {names.total} += {names.item} * {rates[0]}
            elif {names.item} <= {high}:
                {names.total} += {names.item} * {rates[1]}
            else:
                {names.total} += {names.item} * {rates[2]}
        return {names.total}
    """
    edges = (low, high)
    return Function(names.function, _write(names.function, names.argument, doc, body), edges)


def _rises(draws: Stream, names: _Names) -> Function:
    limit, cost = draws.integer(8, 40), draws.integer(2, 7)
    doc = (
        f"Compare each of the {names.argument} with the one before it. Add up the rises that are "
        f"at least {limit}, each less {cost}."
    )
    body = f"""
        {names.total} = 0
        for place in range(1, len({names.argument})):
            rise = {names.argument}[place] - {names.argument}[place - 1]
            if rise >= {limit}:
                {names.total} += rise - {cost}
        return {names.total}
    """
    source = _write(names.function, names.argument, doc, body)
    return Function(names.function, source, steps=(limit,))


def _best_run(draws: Stream, names: _Names) -> Function:
    limit, bonus = draws.integer(2, 25), draws.integer(2, 9)
    doc = (
        f"A run is a stretch of neighbouring {names.argument} that are all more than {limit}; its "
        f"worth is their sum, and {bonus} for each. Return the largest worth of a run, 0 if there "
        "is none."
    )
    body = f"""
        best = 0
        {names.total} = 0
        for {names.item} in {names.argument}:
            if {names.item} > {limit}:
                {names.total} += {names.item} + {bonus}
                best = max(best, {names.total})
            else:
                {names.total} = 0
        return best
    """
    return Function(names.function, _write(names.function, names.argument, doc, body), (limit,))


def _spread(draws: Stream, names: _Names) -> Function:
    factor, high, low = draws.integer(2, 9), draws.integer(1, 2), draws.integer(1, 2)
    default = draws.integer(100, 900)
    counted = {1: "largest", 2: "second largest"}[high], {1: "smallest", 2: "second smallest"}[low]
    doc = (
        f"Take {factor} times the {counted[0]} of the {names.argument}, and return that less the "
        f"{counted[1]}; {default} if there are fewer than 2."
    )
    body = f"""
        ranked = sorted({names.argument})
        if len(ranked) < 2:
            return {default}
        return {factor} * ranked[len(ranked) - {high}] - ranked[{low - 1}]
    """
    return Function(names.function, _write(names.function, names.argument, doc, body))


def _lagged(draws: Stream, names: _Names) -> Function:
    lag, factor = draws.integer(1, 3), draws.integer(3, 7)
    doc = (
        f"Multiply each of the {names.argument} by the one {lag} places after it, if there is "
        f"one, and add up the products; a negative product counts {factor} times."
    )
    body = f"""
        {names.total} = 0
        for place in range(len({names.argument}) - {lag}):
            product = {names.argument}[place] * {names.argument}[place + {lag}]
            if product < 0:
                product = product * {factor}
            {names.total} += product
        return {names.total}
    """
    return Function(names.function, _write(names.function, names.argument, doc, body))


def _selected(draws: Stream, names: _Names) -> Function:
    modulus, limit = draws.integer(3, 6), draws.integer(15, 60)
    rest = draws.integer(0, modulus - 1)
    doc = (
        f"Return in their order those {names.argument} that are more than {limit}, or that leave "
        f"{rest} when divided by {modulus}."
    )
    body = f"""
        {names.kept} = []
        for {names.item} in {names.argument}:
            if {names.item} > {limit} or {names.item} % {modulus} == {rest}:
                {names.kept}.append({names.item})
        return {names.kept}
    """
    source = _write(names.function, names.argument, doc, body)
    return Function(names.function, source, (limit,))


def _clamped(draws: Stream, names: _Names) -> Function:
    factor, shift = draws.integer(2, 6), draws.integer(3, 30)
    low, high = draws.integer(2, 30), draws.integer(120, 300)
    doc = (
        f"Return each of the {names.argument} times {factor}, and {shift} added; but {low} for "
        f"what would be less, and {high} for what would be more."
    )
    body = f"""
        {names.kept} = []
        for {names.item} in {names.argument}:
            {names.kept}.append(max({low}, min({high}, {names.item} * {factor} + {shift})))
        return {names.kept}
    """
    edges = ((low - shift) // factor, (high - shift) // factor)
    source = _write(names.function, names.argument, doc, body)
    return Function(names.function, source, edges)


def _windows(draws: Stream, names: _Names) -> Function:
    width, cost = draws.integer(2, 4), draws.integer(3, 40)
    doc = (
        f"Return the sum of every {width} neighbouring {names.argument}, from the first ones to "
        f"the last ones, each less {cost}."
    )
    body = f"""
        {names.kept} = []
        for start in range(len({names.argument}) - {width - 1}):
            window = {names.argument}[start : start + {width}]
            {names.kept}.append(sum(window) - {cost})
        return {names.kept}
    """
    source = _write(names.function, names.argument, doc, body)
    return Function(names.function, source)


def _thinned(draws: Stream, names: _Names) -> Function:
    gap = draws.integer(8, 35)
    doc = (
        f"Return the first of the {names.argument}, and then each that differs from the last one "
        f"returned by {gap} or more."
    )
    body = f"""
        {names.kept} = []
        for {names.item} in {names.argument}:
            if not {names.kept} or abs({names.item} - {names.kept}[-1]) >= {gap}:
                {names.kept}.append({names.item})
        return {names.kept}
    """
    source = _write(names.function, names.argument, doc, body)
    return Function(names.function, source, steps=(gap, -gap))


def _carried(draws: Stream, names: _Names) -> Function:
    divisor, start = draws.integer(2, 5), draws.integer(20, 90)
    doc = (
        f"Return for each of the {names.argument} its sum with the carry, which begins as {start} "
        f"and is then the sum before divided by {divisor}, rounded down."
    )
    body = f"""
        {names.kept} = []
        carry = {start}
        for {names.item} in {names.argument}:
            {names.total} = {names.item} + carry
            {names.kept}.append({names.total})
            carry = {names.total} // {divisor}
        return {names.kept}
    """
    source = _write(names.function, names.argument, doc, body)
    return Function(names.function, source)


OF_LISTS: tuple[Block, ...] = (_selected, _clamped, _windows, _thinned, _carried)
OF_NUMBERS: tuple[Block, ...] = (
    _weighted_total,
    _by_position,
    _checksum,
    _with_fee,
    _tiers,
    _rises,
    _best_run,
    _spread,
    _lagged,
)
