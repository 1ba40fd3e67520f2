"""Text in, text and embeddings out, with tiny models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from mlx_native_py import MlxDevice
from mlx_native_py.errors import InvalidArgument
from mlx_native_py.models import embed, generate, generate_ids, load, prompt_ids, stream_generate
from mlx_native_py.models.tiny import write_tiny
from models.tiny import BASE, random_weights, write_gguf
from models.vocabularies import cats


@pytest.fixture(scope="module")
def llama(device: MlxDevice, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    return load(write_tiny(tmp_path_factory.mktemp("llama")), device)


@pytest.fixture(scope="module")
def bert(device: MlxDevice, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    return load(write_tiny(tmp_path_factory.mktemp("bert"), "bert"), device)


def test_text_is_that_of_the_tokens(llama: tuple[Any, Any]) -> None:
    model, tokenizer = llama
    outcome = list(stream_generate(model, tokenizer, "Hi there", max_tokens=12))
    tokens = [each.token for each in generate_ids(model, tokenizer.encode("Hi there"), max_tokens=12)]
    assert [each.token for each in outcome] == tokens
    assert "".join(each.text for each in outcome) == tokenizer.decode(tokens)
    assert [each.generation_tokens for each in outcome] == list(range(1, 13))
    last = outcome[-1]
    assert (last.prompt_tokens, last.finish_reason) == (8, "length")
    assert last.prompt_tps > 0 and last.generation_tps > 0 and last.peak_memory > 0
    assert all(each.finish_reason is None for each in outcome[:-1])


def test_the_context_is_kept_before_work_begins(llama: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokenizer = llama
    longest = model.config.max_positions
    with monkeypatch.context() as patch:
        patch.setattr(type(tokenizer), "encode", lambda *_, **__: pytest.fail("the prompt was encoded"))
        for prompt in ("a" * 10_000_000, [{"role": "user", "content": "a" * 1_000_000}]):
            with pytest.raises(InvalidArgument, match=rf"a prompt of \d+ characters: the model reads {longest} tokens"):
                generate(model, tokenizer, prompt)
    with pytest.raises(
        InvalidArgument, match=f"a prompt of {longest + 1} tokens exceeds the context length of {longest}"
    ):
        generate(model, tokenizer, [5] * (longest + 1))
    last = list(generate_ids(model, [5] * longest, max_tokens=9, stop_ids=()))
    assert [each.finish_reason for each in last] == ["length"]


def test_verbose_prints_what_it_answers(llama: tuple[Any, Any], capsys: pytest.CaptureFixture[str]) -> None:
    text = generate(*llama, prompt="Hi", max_tokens=5, verbose=True)
    out = capsys.readouterr().out
    assert out.startswith(f"{text}\nprompt: 2 tokens") and "generation: 5 tokens" in out


def test_prompts_of_every_kind(llama: tuple[Any, Any]) -> None:
    model, tokenizer = llama
    message = {"role": "user", "content": "Hi"}
    assert prompt_ids(tokenizer, [message]) == prompt_ids(tokenizer, "<user>Hi") == tokenizer.encode("<user>Hi")
    assert generate(model, tokenizer, [message], max_tokens=6) == generate(model, tokenizer, "<user>Hi", max_tokens=6)
    ids = np.array(tokenizer.encode("Hi"))
    assert prompt_ids(tokenizer, ids) == ids.tolist()  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="a text, tokens, or messages"):
        prompt_ids(tokenizer, [message, 5])  # type: ignore[arg-type]


def test_sampling_is_repeated_by_its_seed(llama: tuple[Any, Any]) -> None:
    texts = [
        generate(*llama, "Hi", max_tokens=16, temperature=1.5, top_k=40, top_p=0.95, seed=seed) for seed in (1, 1, 2)
    ]
    assert texts[0] == texts[1] != texts[2]


def test_a_stop_string_ends_and_is_not_shown(llama: tuple[Any, Any]) -> None:
    model, tokenizer = llama
    options: dict[str, Any] = {"max_tokens": 40, "temperature": 1.0, "seed": 3}
    whole = list(stream_generate(model, tokenizer, "Hi", **options))
    text = "".join(each.text for each in whole)
    stop = text[6:8]
    tokens = list(stream_generate(model, tokenizer, "Hi", stop=[stop], **options))
    assert "".join(each.text for each in tokens) == text[: text.index(stop)]
    assert tokens[-1].finish_reason == "stop" and len(tokens) < len(whole)


def test_an_end_token_ends_and_is_not_shown(llama: tuple[Any, Any]) -> None:
    model, tokenizer = llama
    first, second, *_ = (each.token for each in stream_generate(model, tokenizer, "Hi", max_tokens=4))
    tokens = list(stream_generate(model, tokenizer, "Hi", max_tokens=4, stop_ids=[second]))
    assert [each.token for each in tokens] == [first, second]
    assert (tokens[-1].text, tokens[-1].finish_reason) in (("", "stop"), ("\ufffd", "stop"))
    endless = list(stream_generate(model, tokenizer, "Hi", max_tokens=4, stop_ids=[]))
    assert endless[-1].finish_reason == "length"


def test_progress_reaches_the_prompt(llama: tuple[Any, Any]) -> None:
    model, tokenizer = llama
    seen: list[tuple[int, int]] = []
    generate(model, tokenizer, "a" * 50, max_tokens=1, prefill_step_size=16, progress=lambda *at: seen.append(at))
    assert seen == [(16, 50), (32, 50), (48, 50), (49, 50)]


def test_wrong_options_are_said_at_once(llama: tuple[Any, Any], bert: tuple[Any, Any]) -> None:
    for options in ({"max_tokens": 0}, {"heat": 1.0}, {"stop": [""]}):
        with pytest.raises(InvalidArgument):
            stream_generate(*llama, "Hi", **options)
    with pytest.raises(InvalidArgument, match="cannot generate text"):
        stream_generate(*bert, "Hi")
    with pytest.raises(InvalidArgument, match="has no embeddings"):
        embed(*llama, "Hi")
    with pytest.raises(InvalidArgument, match="no model 'nowhere'"):
        load("nowhere")


def test_a_gguf_file_brings_its_tokenizer(device: MlxDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vocabulary = cats()
    config = {**BASE, "model_type": "llama", "vocab_size": len(vocabulary["tokenizer.ggml.tokens"])}
    write = gguf.GGUFWriter.write_header_to_file

    def with_vocabulary(writer: gguf.GGUFWriter) -> None:
        writer.add_tokenizer_model("llama")
        writer.add_token_list(vocabulary["tokenizer.ggml.tokens"])
        writer.add_token_types(vocabulary["tokenizer.ggml.token_type"])
        writer.add_token_scores(vocabulary["tokenizer.ggml.scores"])
        writer.add_bos_token_id(1)
        write(writer)

    monkeypatch.setattr(gguf.GGUFWriter, "write_header_to_file", with_vocabulary)
    write_gguf(tmp_path / "cats.gguf", config, random_weights(config))
    model, tokenizer = load(tmp_path / "cats.gguf", device)
    assert prompt_ids(tokenizer, "the cat")[0] == 1
    assert generate(model, tokenizer, "the cat", max_tokens=5)


def test_embeddings(bert: tuple[Any, Any]) -> None:
    model, tokenizer = bert
    texts = ["a cat", "the hat, the mat", "A CAT"]
    vectors = embed(model, tokenizer, texts)
    assert vectors.shape == (3, 64) and vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(vectors[0], vectors[2], atol=1e-6)
    np.testing.assert_allclose(embed(model, tokenizer, "a cat"), vectors[:1], atol=1e-5)
    expected = model.embed_ids([tokenizer.encode(text) for text in texts])
    np.testing.assert_allclose(vectors, expected, atol=1e-6)


@pytest.mark.parametrize(("said", "most"), [(None, 512), (16, 16), (100_000, 512)])
def test_long_texts_are_cut(device: MlxDevice, tmp_path: Path, said: int | None, most: int) -> None:
    write_tiny(tmp_path, "bert")
    if said is not None:
        (tmp_path / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": said}))
    model, tokenizer = load(tmp_path, device)
    vectors = embed(model, tokenizer, ["a" + " b" * 2000, "a" + " b" * (most - 3), "a" + " b" * (most - 4)])
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-5)
    assert np.abs(vectors[0] - vectors[2]).max() > 1e-5


def test_control_tokens_of_strangers_stay_text(bert: tuple[Any, Any]) -> None:
    vectors = embed(*bert, ["a [SEP] b", "a b"])
    assert np.abs(vectors[0] - vectors[1]).max() > 1e-3


def test_tiny_families(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="'llama' or 'bert'"):
        write_tiny(tmp_path, "gpt5")
