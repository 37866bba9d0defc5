"""The sender: every message keeps its name until all groups have answered, and nobody is told more than is known."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.client.fakes import CLIENT, FakeLink
from tests.virtual_loop import VirtualLoop

from braidcast.client.errors import NotDelivered
from braidcast.client.sender import LEFT_S_MAX, LOOK_S, PATIENCE, RETRY_S, RETRY_S_MAX, Receipt, Sender, new_session
from braidcast.core.ballots import ballot
from braidcast.core.client import EXPIRED_SESSION, MessageId, Multicast, Redirect, Refused, Reply
from braidcast.core.errors import BraidcastError

AFTER_TIMEOUT_S = RETRY_S + 2 * LOOK_S


class Stage:
    """A sender, its link, and the loop they live on."""

    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.link = FakeLink(self.loop)
        with self.loop.running():
            self.sender = Sender(self.link, 1)

    def submit(self, *dest: int) -> asyncio.Future[Receipt]:
        with self.loop.running():
            return self.sender.submit(dest, b"payload")

    def reply(self, seq: int, group: int, gts: int = 1 << 10) -> None:
        self.link.answer(Reply(MessageId(CLIENT, 1, seq), group, gts))

    def refuse(self, seq: int, why: str = "no") -> None:
        self.link.answer(Refused(MessageId(CLIENT, 1, seq), 0, why))

    def complete_below(self) -> int:
        """What the sender would say of itself now."""
        self.submit(0)
        message = self.link.taken()[-1][1]
        assert isinstance(message, Multicast)
        return message.complete_below

    def close(self) -> None:
        self.loop.run(self.sender.close())
        self.loop.calm()


def reason(done: asyncio.Future[Any]) -> NotDelivered:
    error = done.exception()
    assert isinstance(error, NotDelivered)
    return error


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    futures = [unit.done for unit in made.sender.units.values()]
    made.close()
    for future in futures:
        future.exception()


def test_message_goes_to_the_believed_leader_of_each_group_once(stage: Stage) -> None:
    stage.submit(0, 1)
    assert stage.link.taken() == [((0, 3), Multicast(MessageId(CLIENT, 1, 1), (0, 1), b"payload", 1))]


def test_retry_goes_to_all_members_of_the_groups_that_are_silent_under_the_same_name(stage: Stage) -> None:
    stage.submit(0, 1)
    ((_, first),) = stage.link.taken()
    stage.loop.advance(AFTER_TIMEOUT_S)
    assert stage.link.taken() == [((0, 1, 2, 3, 4, 5), first)]
    stage.reply(1, 0)
    stage.loop.advance(2 * AFTER_TIMEOUT_S)
    assert stage.link.taken() == [((3, 4, 5), first)]


def test_retries_come_less_and_less_often(stage: Stage) -> None:
    stage.submit(0)
    stage.loop.advance(60)
    assert 10 < len(stage.link.taken()) < 25


def test_receipt_comes_when_all_groups_have_answered_with_the_highest_timestamp(stage: Stage) -> None:
    done = stage.submit(0, 1)
    stage.reply(1, 1, 9 << 10)
    stage.reply(1, 1, 9 << 10)
    assert not done.done()
    stage.reply(1, 0, 0)
    assert done.result() == Receipt(MessageId(CLIENT, 1, 1), 9 << 10)


def test_reply_of_a_group_that_was_not_addressed_counts_for_nothing(stage: Stage) -> None:
    done = stage.submit(0)
    stage.reply(1, 1)
    assert not done.done()


def test_redirect_repairs_the_leader_and_sends_there_at_once(stage: Stage) -> None:
    stage.submit(0)
    ((_, first),) = stage.link.taken()
    stage.link.answer(Redirect(first.id, 0, ballot(3, 2)))
    assert stage.link.taken() == [((2,), first)]
    stage.submit(0, 1)
    assert stage.link.taken()[0][0] == (2, 3)


def test_redirect_of_one_message_sends_all_that_wait_for_that_group_to_its_leader_at_once(stage: Stage) -> None:
    for dest in ((0,), (1,), (0, 1), (0, 1)):
        stage.submit(*dest)
    stage.reply(4, 0)
    stage.link.taken()
    stage.link.answer(Redirect(MessageId(CLIENT, 1, 1), 0, ballot(3, 2)))
    assert [(to, message.id.seq) for to, message in stage.link.taken()] == [((2,), 1), ((2,), 3)]


def test_leader_that_does_not_lead_yet_is_asked_again_soon(stage: Stage) -> None:
    stage.submit(0)
    stage.link.answer(Redirect(MessageId(CLIENT, 1, 1), 0, ballot(3, 2)), sender=2)
    stage.link.taken()
    stage.link.answer(Redirect(MessageId(CLIENT, 1, 1), 0, ballot(3, 2)), sender=1)
    stage.loop.advance(2 * LOOK_S)
    assert stage.link.taken() == []
    stage.link.answer(Redirect(MessageId(CLIENT, 1, 1), 0, ballot(3, 2)), sender=2)
    stage.loop.advance(2 * LOOK_S)
    assert [to for to, _ in stage.link.taken()] == [(0, 1, 2)]


def test_while_the_leader_is_out_of_reach_one_message_asks_everybody_who_leads(stage: Stage) -> None:
    for _ in range(3):
        stage.submit(0)
    stage.link.taken()
    stage.link.lose(stage.link.lines["n1"])
    stage.loop.advance(0.1)
    asked = stage.link.taken()
    assert 3 <= len(asked) <= 5
    assert {(to, message.id.seq) for to, message in asked} == {((0, 1, 2), 1)}
    stage.link.answer(Redirect(MessageId(CLIENT, 1, 1), 0, ballot(3, 2)))
    assert [(to, message.id.seq) for to, message in stage.link.taken()] == [((2,), 1), ((2,), 2), ((2,), 3)]
    stage.loop.advance(RETRY_S / 2)
    assert stage.link.taken() == []


def test_message_to_a_leader_that_is_out_of_reach_asks_who_leads(stage: Stage) -> None:
    stage.link.lose(stage.link.lines["n1"])
    stage.loop.advance(1)
    assert stage.link.taken() == []
    stage.submit(0)
    assert [to for to, _ in stage.link.taken()] == [(0,), (0, 1, 2)]


def test_redirect_of_an_older_ballot_is_ignored(stage: Stage) -> None:
    stage.submit(0)
    ((_, first),) = stage.link.taken()
    stage.link.answer(Redirect(first.id, 0, ballot(3, 2)))
    stage.link.taken()
    stage.link.answer(Redirect(first.id, 0, ballot(2, 1)))
    assert stage.link.taken() == []
    assert stage.sender.leaders[0] == 2


@pytest.mark.parametrize(("group", "leader"), [(0, 4), (0, 77), (7, 0), (-1, 3)])
def test_redirect_to_who_cannot_lead_is_ignored(stage: Stage, group: int, leader: int) -> None:
    stage.submit(0)
    ((_, first),) = stage.link.taken()
    stage.link.answer(Redirect(first.id, group, ballot(3, leader)))
    assert stage.link.taken() == []
    assert stage.sender.leaders == {0: 0, 1: 3}


def test_redirect_for_a_group_that_has_answered_sends_nothing_again(stage: Stage) -> None:
    stage.submit(0, 1)
    ((_, first),) = stage.link.taken()
    stage.reply(1, 0)
    stage.link.answer(Redirect(first.id, 0, ballot(3, 2)))
    assert stage.link.taken() == []


def test_refusal_of_the_only_copy_says_that_it_is_not_delivered(stage: Stage) -> None:
    done = stage.submit(0)
    stage.refuse(1, "too large")
    assert reason(done).why == "too large"
    assert not reason(done).may_be_delivered
    assert stage.complete_below() == 2


def test_refusal_says_that_it_may_be_delivered_when_other_groups_have_it(stage: Stage) -> None:
    done = stage.submit(0, 1)
    stage.refuse(1)
    assert reason(done).may_be_delivered


def test_refusal_says_that_it_may_be_delivered_when_it_was_retried(stage: Stage) -> None:
    done = stage.submit(0)
    stage.loop.advance(AFTER_TIMEOUT_S)
    stage.refuse(1)
    assert reason(done).may_be_delivered


def test_refusal_says_that_it_may_be_delivered_when_a_redirect_made_a_second_copy(stage: Stage) -> None:
    done = stage.submit(0)
    stage.link.answer(Redirect(MessageId(CLIENT, 1, 1), 0, ballot(3, 2)))
    stage.refuse(1)
    assert reason(done).may_be_delivered


def test_refusal_of_a_copy_means_nothing_once_a_group_has_delivered(stage: Stage) -> None:
    done = stage.submit(0, 1)
    stage.reply(1, 0)
    stage.refuse(1)
    assert not done.done()
    stage.reply(1, 1)
    assert done.result().timestamp == 1 << 10


def test_complete_below_stays_at_the_lowest_that_is_under_way_when_later_ones_end_first(stage: Stage) -> None:
    for _ in range(4):
        stage.submit(0)
    stage.reply(2, 0)
    stage.reply(3, 0)
    assert stage.complete_below() == 1
    stage.reply(1, 0)
    assert stage.complete_below() == 4
    stage.reply(5, 0)
    stage.reply(4, 0)
    assert stage.complete_below() == 6


def test_complete_below_does_not_pass_what_only_has_a_name_yet(stage: Stage) -> None:
    name = stage.sender.name()
    stage.submit(0)
    stage.reply(2, 0)
    assert stage.complete_below() == 1
    with stage.loop.running():
        done = stage.sender.submit((0,), b"payload", id=name)
        assert stage.sender.submit((0,), b"payload", id=name) is done
    stage.reply(1, 0)
    assert stage.complete_below() == 3


def test_message_of_an_earlier_session_says_nothing_of_what_was_complete_in_it(stage: Stage) -> None:
    stage.submit(0)
    stage.reply(1, 0)
    stage.link.taken()
    earlier = MessageId(CLIENT, 0, 7)
    with stage.loop.running():
        done = stage.sender.submit((0,), b"payload", id=earlier)
    assert stage.link.taken() == [((0,), Multicast(earlier, (0,), b"payload", 1))]
    stage.link.answer(Reply(earlier, 0, 0))
    assert done.result() == Receipt(earlier, 0)


def test_refusal_of_a_message_of_an_earlier_session_says_that_it_may_be_delivered(stage: Stage) -> None:
    with stage.loop.running():
        done = stage.sender.submit((0,), b"payload", id=MessageId(CLIENT, 0, 7))
    stage.link.answer(Refused(MessageId(CLIENT, 0, 7), 0, "expired session"))
    assert reason(done).may_be_delivered


def test_messages_in_batches_are_numbered_and_complete_below_the_lowest_that_is_under_way(stage: Stage) -> None:
    def numbers(messages: int) -> tuple[int, int, int]:
        with stage.loop.running():
            stage.sender.submit((0,), b"", messages)
        m = stage.link.taken()[-1][1]
        return m.batch_first, m.batch_count, m.batch_complete_below

    assert [numbers(3), numbers(2), numbers(0), numbers(4)] == [(0, 3, 0), (3, 2, 0), (0, 0, 0), (5, 4, 0)]
    stage.reply(1, 0)
    stage.reply(3, 0)
    assert numbers(1) == (9, 1, 3)
    stage.reply(2, 0)
    assert numbers(1) == (10, 1, 5)


def test_complete_below_does_not_pass_what_was_refused_while_others_may_have_it(stage: Stage) -> None:
    done = stage.submit(0, 1)
    stage.refuse(1)
    assert reason(done).may_be_delivered
    assert stage.complete_below() == 1


def test_session_that_the_groups_have_forgotten_is_followed_by_a_new_one(stage: Stage) -> None:
    stage.submit(1)
    refused = stage.submit(0)
    stage.refuse(2, EXPIRED_SESSION)
    assert not reason(refused).may_be_delivered
    stage.link.taken()
    stage.submit(0)
    ((_, message),) = stage.link.taken()
    assert message.id.session > 1
    assert (message.id.seq, message.complete_below) == (1, 1)
    stage.reply(1, 1)
    assert [id.session for id in stage.sender.units] == [message.id.session]


def test_message_that_may_be_delivered_after_its_refusal_holds_back_one_session_only(stage: Stage) -> None:
    stage.submit(0, 1).add_done_callback(reason)
    stage.refuse(1)
    assert stage.complete_below() == 1
    stage.loop.advance(LEFT_S_MAX + 2 * LOOK_S)
    assert stage.sender.session > 1
    assert stage.complete_below() == 1
    assert (stage.sender.seq, stage.sender.left) == (1, {})


def test_message_to_a_cluster_that_is_slow_for_all_is_not_sent_again_before_it_is_late(stage: Stage) -> None:
    for seq in range(1, 101):
        stage.submit(0)
        stage.loop.advance(RETRY_S - 2 * LOOK_S)
        stage.reply(seq, 0)
    assert stage.sender.retries == 0
    assert stage.sender.patience_s == pytest.approx(PATIENCE * (RETRY_S - 2 * LOOK_S), rel=0.01)
    stage.submit(0)
    stage.loop.advance(2 * RETRY_S)
    assert stage.sender.retries == 0
    stage.loop.advance(PATIENCE * RETRY_S)
    assert stage.sender.retries == 1


def test_patience_has_a_limit_and_comes_back_when_the_cluster_is_swift_again(stage: Stage) -> None:
    for seq in range(1, 21):
        stage.submit(0)
        stage.loop.advance(30)
        stage.reply(seq, 0)
    assert stage.sender.patience_s == RETRY_S_MAX
    for seq in range(21, 200):
        stage.submit(0)
        stage.reply(seq, 0)
    assert stage.sender.patience_s == RETRY_S


def test_close_ends_every_future_and_stops_retrying(stage: Stage) -> None:
    futures = [stage.submit(0, 1), stage.submit(1)]
    stage.close()
    assert [reason(done).may_be_delivered for done in futures] == [True, True]
    assert reason(futures[0]).why == "the sender was closed"
    stage.link.taken()
    stage.loop.advance(60)
    assert stage.link.taken() == []


def test_new_connection_to_a_leader_brings_the_retry_forward(stage: Stage) -> None:
    stage.submit(0)
    stage.submit(1)
    stage.link.taken()
    stage.sender.leaders[1] = 4
    stage.link.connect(stage.link.lines["n1"])
    stage.loop.advance(2 * LOOK_S)
    assert [message.id.seq for _, message in stage.link.taken()] == [1]


def test_late_answers_and_answers_to_others_change_nothing(stage: Stage) -> None:
    done = stage.submit(0)
    stage.reply(1, 0)
    stage.reply(1, 0)
    stage.refuse(1)
    stage.reply(99, 0)
    assert done.result().id.seq == 1


def test_future_that_its_owner_cancelled_ends_nothing_else(stage: Stage) -> None:
    done, other = stage.submit(0), stage.submit(0)
    done.cancel()
    stage.reply(1, 0)
    stage.reply(2, 0)
    assert other.done()
    assert stage.complete_below() == 3


@pytest.mark.parametrize("dest", [(), (2,), (-1,)])
def test_message_to_nobody_or_to_a_group_that_is_not_there_is_one_clear_error(stage: Stage, dest: Any) -> None:
    with pytest.raises(BraidcastError, match="group"):
        stage.submit(*dest)
    assert not stage.sender.units
    assert stage.sender.seq == 0


def test_payload_that_no_node_takes_is_not_sent_and_leaves_no_hole(stage: Stage) -> None:
    with stage.loop.running():
        done = stage.sender.submit((0, 1), bytes(1025), id=stage.sender.name())
    assert reason(done).why == "too large: 1,025 bytes, at most 1,024"
    assert not reason(done).may_be_delivered
    assert stage.link.taken() == []
    assert stage.complete_below() == 2


def test_names_of_groups_become_ascending_numbers_without_repetition(stage: Stage) -> None:
    assert stage.sender.dest(["b", "a", "b"]) == (0, 1)
    with pytest.raises(BraidcastError, match="it has a, b"):
        stage.sender.dest(["c"])


def test_sessions_that_begin_in_one_millisecond_differ() -> None:
    """Two senders of one client would give two messages one name, and one of them would never be delivered."""
    sessions = [new_session() for _ in range(1000)]
    assert len(set(sessions)) == 1000
    assert sessions == sorted(sessions)
