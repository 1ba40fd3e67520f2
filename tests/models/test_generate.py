"""Tokens one after the other: chunks, growth, rings, batches, sampling, and the end."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlx_native_py import InvalidArgument, MlxDevice, settings
from mlx_native_py.models import Decoder, Sampling, generate_batch_ids, generate_ids
from mlx_native_py.models import load_model as load
from mlx_native_py.softmetal.execution.repeating import orders
from models.reference import Reference, Table
from models.running import decoded
from models.tiny import BASE, GEMMA, random_weights, write_gguf, write_plain

LLAMA: Table = {**BASE, "model_type": "llama"}
SLIDING: Table = {**GEMMA, "model_type": "gemma2", "attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0}
PROMPT = [5, 17, 90, 3, 3, 41, 8, 60, 22, 13, 77, 2, 30, 31]


@pytest.fixture(scope="module")
def llama(device: MlxDevice, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("llama") / "m.gguf"
    write_gguf(path, LLAMA, random_weights(LLAMA), "Q8_0")
    return load(path, device)


def ids(model: Any, prompt: list[int], **options: Any) -> list[int]:
    return [each.token for each in generate_ids(model, prompt, **{"stop_ids": (), "max_tokens": 12, **options})]


@pytest.mark.parametrize("chunk", [1, 3, 5, 64])
def test_chunks_rings_and_growth(device: MlxDevice, tmp_path: Path, chunk: int) -> None:
    weights = random_weights(SLIDING)
    reference = Reference(SLIDING, write_plain(tmp_path, SLIDING, weights))
    tokens, logits = decoded(load(tmp_path, device), PROMPT, 12, chunk=chunk, capacity=4)
    expected = reference.logits([*PROMPT, *tokens])[len(PROMPT) - 1 : -1]
    assert np.abs(logits - expected).max() < 3e-4


def test_a_ring_is_as_large_as_its_window_needs(device: MlxDevice, tmp_path: Path) -> None:
    write_plain(tmp_path, SLIDING, random_weights(SLIDING))
    cache = load(tmp_path, device).make_cache(capacity=256, chunk=5)
    assert [layer.capacity for layer in cache.layers] == [8 + 4, 256, 8 + 4]
    assert not cache.reserve(256) and cache.reserve(300)
    assert [layer.capacity for layer in cache.layers] == [8 + 4, 512, 8 + 4]


def test_keys_and_values_in_8_bits(llama: Any) -> None:
    _, exact = decoded(llama, PROMPT, 1)
    tokens, near = decoded(llama, PROMPT, 1, bits=8)
    assert 1e-6 < np.abs(near - exact).max() < 0.1
    decoder = Decoder(llama, llama.make_cache(bits=8, capacity=8))
    decoder.prefill([PROMPT])
    assert decoder.step()[0] == tokens
    assert llama.make_cache(bits=8).nbytes < llama.make_cache().nbytes / 2


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_keys_and_values_of_half_the_size(llama: Any, dtype: str) -> None:
    _, exact = decoded(llama, PROMPT, 1)
    _, near = decoded(llama, PROMPT, 1, dtype=dtype)
    assert 1e-6 < np.abs(near - exact).max() < {"f16": 0.01, "bf16": 0.1}[dtype]


@pytest.mark.soft
def test_a_prompt_gives_the_same_logits_in_any_order_on_any_number_of_cores(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """And on the engine of the first run as on that of the last, which has come to be compiled on the way."""
    write_gguf(tmp_path / "m.gguf", LLAMA, random_weights(LLAMA), "Q8_0")
    runs, schedules = (20, 16) if request.config.getoption("--full") else (5, 2)
    seen = set()
    for threads, schedule in product((1, 2), orders(schedules)):
        asked = settings.override(soft_threads=threads, soft_schedule=schedule, soft_engine="auto")
        with asked, MlxDevice("soft") as opened:
            model = load(tmp_path / "m.gguf", opened)
            seen |= {decoded(model, PROMPT, 8)[1].tobytes() for _ in range(runs)}
    assert len(seen) == 1


def test_a_batch_is_as_its_sequences(llama: Any) -> None:
    prompts = [PROMPT, PROMPT[:1], PROMPT[3:9]]
    assert generate_batch_ids(llama, prompts, max_tokens=12, stop_ids=()) == [ids(llama, each) for each in prompts]


def test_a_batch_ends_sequence_by_sequence(llama: Any) -> None:
    prompts = [PROMPT, PROMPT[3:9]]
    whole = [ids(llama, each) for each in prompts]
    stop = whole[0][2]
    generated = generate_batch_ids(llama, prompts, max_tokens=12, stop_ids=[stop])
    assert generated == [each[: each.index(stop) + 1] if stop in each else each for each in whole]


def test_a_batch_ends_with_the_context(llama: Any) -> None:
    longest = llama.config.max_positions
    prompts = [[5] * longest, PROMPT, [7] * (longest - 2)]
    alone = [[each.token for each in generate_ids(llama, prompt, max_tokens=9, stop_ids=())] for prompt in prompts]
    assert [len(tokens) for tokens in alone] == [1, 9, 3]
    assert generate_batch_ids(llama, prompts, max_tokens=9, stop_ids=()) == alone
    with pytest.raises(
        InvalidArgument, match=f"a prompt of {longest + 1} tokens exceeds the context length of {longest}"
    ):
        generate_batch_ids(llama, [PROMPT, [5] * (longest + 1)], max_tokens=9)
    with pytest.raises(InvalidArgument, match="max_tokens is 0"):
        generate_batch_ids(llama, prompts, max_tokens=0)


def test_what_comes_with_a_token(llama: Any) -> None:
    told: list[tuple[int, int]] = []
    results = list(
        generate_ids(llama, PROMPT, max_tokens=4, prefill_step_size=5, progress=lambda *each: told.append(each))
    )
    assert told == [(5, 14), (10, 14), (13, 14)]
    assert [each.finish_reason for each in results] == [None, None, None, "length"]
    last = results[-1]
    assert (last.prompt_tokens, last.generation_tokens) == (14, 4)
    assert min(last.prompt_tps, last.generation_tps, last.peak_memory) > 0 and last.logprob < 0
    stop = results[2].token
    stopped = list(generate_ids(llama, PROMPT, max_tokens=9, stop_ids=[stop]))
    assert stopped[-1].token == stop and stopped[-1].finish_reason == "stop"
    assert len(stopped) == [each.token for each in results].index(stop) + 1


def test_a_cache_goes_on(llama: Any) -> None:
    cache = llama.make_cache()
    first = ids(llama, PROMPT, cache=cache, max_tokens=3)
    # The last token was made and not taken in.
    assert cache.lengths == [len(PROMPT) + 2]
    again = ids(llama, [first[-1], 9, 10], cache=cache, max_tokens=5)
    assert again == ids(llama, [*PROMPT, *first, 9, 10], max_tokens=5)


def test_a_step_is_replayed(llama: Any) -> None:
    decoder = Decoder(llama, llama.make_cache())
    decoder.prefill([PROMPT])
    plan = decoder.plan
    for _ in range(3):
        decoder.step()
    assert decoder.plan is plan and plan.message_count <= 60


def test_sampling(llama: Any) -> None:
    drawn = {seed: ids(llama, PROMPT, temperature=1.0, seed=seed) for seed in (1, 1, 2)}
    assert drawn[1] == ids(llama, PROMPT, temperature=1.0, seed=1) != drawn[2]
    greedy = ids(llama, PROMPT)
    assert ids(llama, PROMPT, temperature=1.0, top_k=1) == greedy
    assert ids(llama, PROMPT, temperature=1.0, top_p=1e-6) == greedy
    assert ids(llama, PROMPT, temperature=1.0, min_p=1.0) == greedy


def test_repetition_is_penalised(llama: Any) -> None:
    """By hand: logits of the last tokens over the penalty, or times it below 0."""
    how = Sampling(repetition_penalty=3.0, repetition_context_size=6)
    decoder, plain = Decoder(llama, llama.make_cache(), how), Decoder(llama, llama.make_cache())
    decoder.prefill([PROMPT])
    plain.prefill([PROMPT])
    seen = list(PROMPT)
    for _ in range(10):
        plain.inputs.tokens.copy_from(decoder.inputs.tokens)
        (token,), _ = decoder.step()
        plain.step()
        logits = plain.logits.numpy()[0].copy()
        last = list(set(seen[-6:]))
        logits[last] = np.where(logits[last] > 0, logits[last] / 3, logits[last] * 3)
        assert token == logits.argmax()
        seen.append(token)


@pytest.mark.parametrize(
    ("prompt", "options", "complaint"),
    [
        ([], {}, "no tokens, expected at least one"),
        ([96], {}, "token 96, expected 0 to 95"),
        ([1], {"max_tokens": 0}, "max_tokens is 0"),
        ([1], {"temprature": 1}, "no option 'temprature'; there are: temperature"),
        ([1], {"kv_bits": 5}, "bits is 5, expected None or 8"),
        ([1], {"repetition_penalty": 2.0, "repetition_context_size": 0}, "repetition_context_size is 0"),
    ],
)
def test_what_cannot_be_asked(llama: Any, prompt: list[int], options: Table, complaint: str) -> None:
    with pytest.raises(InvalidArgument, match=complaint):
        list(generate_ids(llama, prompt, **options))


def test_peak_memory_is_the_most_that_was_in_use(device: MlxDevice, llama: Any) -> None:
    held: list[Any] = []

    def hold_during_the_second_chunk(done: int, total: int) -> None:
        held[:] = [device.empty(1 << 24, "u8")] if done == 5 else []

    options: Table = {"max_tokens": 3, "prefill_step_size": 5, "progress": hold_during_the_second_chunk}
    peaks = [each.peak_memory for each in generate_ids(llama, PROMPT, **options)]
    assert peaks == sorted(peaks)
    assert peaks[-1] * 1e9 >= device.info()["currently_allocated"] + (1 << 24)


def tiny_model(device: MlxDevice, folder: Path) -> Any:
    write_gguf(folder / "m.gguf", LLAMA, random_weights(LLAMA), "Q8_0")
    return load(folder / "m.gguf", device)


def test_a_step_is_recorded_once_for_decoders_of_a_kind(device: MlxDevice, tmp_path: Path) -> None:
    model = tiny_model(device, tmp_path)
    first = decoded(model, PROMPT, 5)
    assert len(model.step_templates) == 1
    again = decoded(model, PROMPT, 5)
    assert len(model.step_templates) == 1 and again[0] == first[0] and (again[1] == first[1]).all()


def test_a_model_whose_layer_was_replaced_is_recorded_anew(device: MlxDevice, tmp_path: Path) -> None:
    model = tiny_model(device, tmp_path)
    before = decoded(model, PROMPT, 3)[1]
    norm = model.layers[0].input_layernorm
    model.layers[0].input_layernorm = device.buffer(norm.numpy() * 2)
    assert np.abs(decoded(model, PROMPT, 3)[1] - before).max() > 1e-3
    assert len(model.step_templates) == 2


@pytest.mark.parametrize("bits", [None, 8])
def test_chunks_of_one_length_are_replayed(device: MlxDevice, tmp_path: Path, bits: Any) -> None:
    model = tiny_model(device, tmp_path)
    prompt = (PROMPT * 8)[:30]

    def logits(chunk: int) -> Any:
        decoder = model.make_decoder(model.make_cache(batch=2, capacity=64, chunk=chunk, bits=bits))
        decoder.prefill([prompt, prompt[:20]])
        decoder.step()
        return decoder.logits.numpy()

    assert np.abs(logits(4) - logits(64)).max() < 1e-4
    assert "prompt" in {key[0] for key in model.step_templates}
