"""What of a conversation a request leaves out: the oldest first, in steps."""

from __future__ import annotations

from harness.agent.conversation import (
    MAX_PICTURE_BYTES,
    MAX_PICTURES,
    fit_pictures,
    leave_out,
    leave_out_more,
)
from harness.model import Image, Message, Omission, Role

OPENING = (Message(Role.SYSTEM, "Rules."), Message(Role.USER, "Find x."))


def result(number: int, pictures: int = 0, size: int = 10) -> Message:
    images = tuple(Image("image/png", bytes([number]) * size) for _ in range(pictures))
    return Message(Role.TOOL, f"result {number}", images, call_id=f"c{number}")


def texts(messages: tuple[Message, ...]) -> list[str]:
    return [message.text for message in messages if message.role is Role.TOOL]


def test_half_of_the_pictures_go_then_the_rest_then_half_of_the_results() -> None:
    messages = (*OPENING, result(1, 2), result(2), result(3, 3), result(4))
    seen, left_out = [], None
    while (left_out := leave_out_more(messages, left_out)) is not None:
        seen.append((left_out.pictures, left_out.results))
    assert seen == [(3, 0), (4, 0), (5, 0), (5, 2), (5, 3), (5, 4)]


def test_each_that_is_left_out_has_a_marker_in_its_place() -> None:
    messages = (*OPENING, result(1, 2), result(2), result(3, 3))
    assert leave_out(messages, None) == messages
    fewer = leave_out(messages, Omission(pictures=3))
    assert [len(message.images) for message in fewer] == [0, 0, 0, 0, 2]
    assert [text.count("picture left out") for text in texts(fewer)] == [2, 0, 1]
    assert all(f"result {n}" in text for n, text in enumerate(texts(fewer), 1))
    least = leave_out(messages, Omission(pictures=5, results=2))
    assert [text.startswith("[left out") for text in texts(least)] == [True, True, False]
    assert [message.call_id for message in least] == [message.call_id for message in messages]
    assert least[:2] == OPENING


def test_pictures_beyond_the_limit_of_a_request_go_by_half_so_that_the_prefix_lasts() -> None:
    messages = [*OPENING, *(result(n) for n in range(3))]
    assert fit_pictures(messages, None) is None
    messages += [result(n % 250, 1) for n in range(MAX_PICTURES)]
    assert fit_pictures(messages, None) is None
    messages.append(result(7, 1))
    left_out = fit_pictures(messages, None)
    assert left_out == Omission(pictures=MAX_PICTURES + 1 - MAX_PICTURES // 2)
    for _ in range(MAX_PICTURES // 2):
        messages.append(result(8, 1))
        assert fit_pictures(messages, left_out) == left_out
    messages.append(result(9, 1))
    assert fit_pictures(messages, left_out) == Omission(pictures=2 * (MAX_PICTURES // 2) + 2)


def test_their_bytes_are_limited_too_and_the_newest_stays() -> None:
    size = MAX_PICTURE_BYTES // 4
    messages = (*OPENING, *(result(n, 1, size) for n in range(5)))
    assert fit_pictures(messages[:-1], None) is None
    assert fit_pictures(messages, None) == Omission(pictures=3)
    one = (*OPENING, result(1, 1, MAX_PICTURE_BYTES), result(2, 1, MAX_PICTURE_BYTES))
    assert fit_pictures(one, None) == Omission(pictures=1)
