"""Compiled: operators that take turns on one processor, row by row."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.columnar.compiling import entrance

#: Columns of `totals` by input.
WAITED, SERVED = 0, 1


@entrance
def poll(
    turns: Any, setups: Any, limits: Any, is_exhaustive: bool, first_input: Any, inputs: Any, stream_of: Any, service: Any,
    passing: Any, reader_from: Any, readers: Any, query_of: Any, arrivals: Any, stream_from: Any, until: float, warm_up: float,
    coins: Any, totals: Any, answers: Any,
) -> float:  # pragma: no cover - compiled  # fmt: skip
    """Serve until a time; returns the mean length of a cycle of turns that had work.

    Parameters
    ----------
    turns
        Operators in the order of a cycle.
    limits
        Most rows of each operator on a visit; 0: none.
    first_input, inputs
        Of each operator: its inputs are numbered from `first_input` on, and there are so many.
    stream_of, service, passing
        By input: the stream that feeds it, or -1, seconds for a row, and rows out for a row in.
    reader_from, readers
        Inputs that read operator k are `readers[reader_from[k] : reader_from[k + 1]]`.
    query_of
        The query that each operator answers, or -1.
    arrivals, stream_from
        Times of the rows of stream k are `arrivals[stream_from[k] : stream_from[k + 1]]`.
    coins
        Numbers from 0 to 1, used in turn, that decide which rows pass.
    totals, answers
        Filled: waits and rows by input; rows, sum and greatest of the latencies by query; of rows that came after the warm-up.
    """
    size, count = 1 << 16, len(turns)
    born, came, at_input, behind = np.zeros(size), np.zeros(size), np.zeros(size, np.int64), np.zeros(size, np.int64)
    free, fresh = -1, 0
    operators = len(setups)
    head, tail, length = np.full(operators, -1, np.int64), np.full(operators, -1, np.int64), np.zeros(operators, np.int64)
    cursor = np.zeros(len(stream_of), np.int64)
    for number in range(len(stream_of)):
        if stream_of[number] >= 0:
            cursor[number] = stream_from[stream_of[number]]
    now, tossed, cycles, cycle_time, idle = 0.0, 0, 0, 0.0, 0
    cycle_began, at = 0.0, 0
    while now < until:
        if at == 0:
            if now > cycle_began and cycle_began > warm_up:
                cycles += 1
                cycle_time += now - cycle_began
            if idle >= count:  # nothing waits anywhere: the next thing to happen is an arrival
                following = until
                for number in range(len(stream_of)):
                    stream = stream_of[number]
                    if stream >= 0 and cursor[number] < stream_from[stream + 1]:
                        following = min(following, arrivals[cursor[number]])
                now = max(now, following)
            cycle_began, idle = now, 0
        operator = turns[at]
        at = (at + 1) % count
        is_first, served = True, 0
        while True:
            # Rows that have come from outside meanwhile, in the order of their times.
            while True:
                chosen, earliest = -1, now
                for number in range(first_input[operator], first_input[operator] + inputs[operator]):
                    stream = stream_of[number]
                    if stream >= 0 and cursor[number] < stream_from[stream + 1] and arrivals[cursor[number]] <= earliest:
                        chosen, earliest = number, arrivals[cursor[number]]
                if chosen < 0:
                    break
                cursor[chosen] += 1
                if free >= 0:
                    node = free
                    free = behind[node]
                else:
                    if fresh == size:
                        born, came = np.concatenate((born, np.zeros(size))), np.concatenate((came, np.zeros(size)))
                        at_input = np.concatenate((at_input, np.zeros(size, np.int64)))
                        behind = np.concatenate((behind, np.zeros(size, np.int64)))
                        size *= 2
                    node = fresh
                    fresh += 1
                born[node], came[node], at_input[node], behind[node] = earliest, earliest, chosen, -1
                if tail[operator] >= 0:
                    behind[tail[operator]] = node
                else:
                    head[operator] = node
                tail[operator] = node
                length[operator] += 1
            gate = length[operator]
            if limits[operator] > 0:
                gate = min(gate, limits[operator] - served)
            if gate == 0:
                break
            if is_first:
                now += setups[operator]
                is_first = False
            for _ in range(gate):
                node = head[operator]
                head[operator] = behind[node]
                if head[operator] < 0:
                    tail[operator] = -1
                length[operator] -= 1
                served += 1
                number, birth = at_input[node], born[node]
                if came[node] > warm_up:
                    totals[number, WAITED] += now - came[node]
                    totals[number, SERVED] += 1
                behind[node] = free
                free = node
                now += service[number]
                copies = int(passing[number])
                if coins[tossed] < passing[number] - copies:
                    copies += 1
                tossed = (tossed + 1) % len(coins)
                for _ in range(copies):
                    query = query_of[operator]
                    if query >= 0 and birth > warm_up:
                        answers[query, 0] += 1
                        answers[query, 1] += now - birth
                        answers[query, 2] = max(answers[query, 2], now - birth)
                    for reader in range(reader_from[operator], reader_from[operator + 1]):
                        target = readers[reader, 0]
                        if free >= 0:
                            child = free
                            free = behind[child]
                        else:
                            if fresh == size:
                                born, came = np.concatenate((born, np.zeros(size))), np.concatenate((came, np.zeros(size)))
                                at_input = np.concatenate((at_input, np.zeros(size, np.int64)))
                                behind = np.concatenate((behind, np.zeros(size, np.int64)))
                                size *= 2
                            child = fresh
                            fresh += 1
                        born[child], came[child], at_input[child], behind[child] = birth, now, readers[reader, 1], -1
                        if tail[target] >= 0:
                            behind[tail[target]] = child
                        else:
                            head[target] = child
                        tail[target] = child
                        length[target] += 1
            if not is_exhaustive:
                break
        idle += is_first
    return cycle_time / max(cycles, 1)
