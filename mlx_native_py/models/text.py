"""Text generation and embeddings with a model and its tokenizer; the functions are mlx-lm's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import index
from pathlib import Path
from typing import Any

from ..device import MlxDevice
from ..dtypes import DType
from ..errors import InvalidArgument
from ..json_fields import Fields, read_table
from ..memory.buffer import Array
from .extras import extra
from .fetch import model_path
from .generation import GenerationResponse, generate_ids
from .loading import load as load_model
from .loading import model_place
from .progress import progress as shown
from .tokenizer import TextStream, Tokenizer

__all__ = ["Prompt", "embed", "generate", "load", "prompt_ids", "stream_generate"]

Prompt = str | Sequence[int] | Sequence[Mapping[str, Any]]
"""A text to continue, its tokens, or chat messages."""


def load(
    path_or_name: Path | str, device: MlxDevice | None = None, *, dtype: Any = DType.F32, prepare: bool = False
) -> tuple[Any, Tokenizer]:
    """A model and its tokenizer, from a path, an alias or a hub name, which is downloaded once.

    `prepare` compiles the kernels of a text model in the background meanwhile.
    """
    extra("tokenizers")  # said before anything is fetched
    path = model_place(model_path(path_or_name))
    with shown(f"loading {path.name}") as report:
        report(0, 2)
        model = load_model(path, device, dtype=dtype, prepare=prepare)
        report(1, 2)
        tokenizer = Tokenizer.of_model(path, model.metadata)
        report(2, 2)
    return model, tokenizer


def prompt_ids(tokenizer: Tokenizer, prompt: Prompt, *, most: int | None = None) -> list[int]:
    """The tokens of a prompt; messages go through the model's chat template.

    A text that cannot fit in `most` tokens is refused before it is encoded.
    """
    if isinstance(prompt, str):
        _require_room(tokenizer, prompt, most)
        tokens = tokenizer.encode(prompt)
        # The prompt will be continued, so the tokens that end a text are removed.
        end = len(tokenizer.suffix)
        return tokens[:-end] if end and tuple(tokens[-end:]) == tokenizer.suffix else tokens
    parts: list[Any] = list(prompt)
    if parts and all(isinstance(each, Mapping) for each in parts):
        text = tokenizer.apply_chat_template(parts, tokenize=False, add_generation_prompt=True)
        _require_room(tokenizer, text, most)
        return tokenizer.encode(text, add_special_tokens=False)
    try:
        return [index(each) for each in parts]
    except TypeError:
        raise InvalidArgument("prompt_ids: expected a text, tokens, or messages of a chat") from None


def _require_room(tokenizer: Tokenizer, text: str, most: int | None) -> None:
    longest = tokenizer.longest_piece
    if most is not None and len(text) > most * longest:
        raise InvalidArgument(
            f"a prompt of {len(text)} characters: the model reads {most} tokens, none longer than {longest} characters"
        )


def stream_generate(
    model: Any,
    tokenizer: Tokenizer,
    prompt: Prompt,
    *,
    max_tokens: int = 256,
    stop: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Iterator[GenerationResponse]:
    """Generates text token by token, up to `max_tokens`, an end token, or a string in `stop`.

    `options` are `temperature`, `top_k`, `top_p`, `min_p`, `repetition_penalty`, `seed`, and those of `generate_ids`.
    `progress(done, total)` is called while the prompt is processed.

    >>> from mlx_native_py.models.tiny import write_tiny
    >>> model, tokenizer = load(write_tiny(folder / "tiny"), device)
    >>> responses = list(stream_generate(model, tokenizer, "Hi", max_tokens=3, temperature=1.0, seed=7))
    >>> [each.generation_tokens for each in responses], responses[-1].prompt_tokens, responses[-1].finish_reason
    ([1, 2, 3], 2, 'length')
    """
    if not hasattr(model, "make_cache"):
        raise InvalidArgument(f"stream_generate: {model!r} is an embedding model and cannot generate text")
    text = tokenizer.stream(stop=stop)
    given = options.pop("stop_ids", None)
    ends = frozenset({*tokenizer.eos_token_ids, *model.config.stop_ids} if given is None else given)
    tokens = prompt_ids(tokenizer, prompt, most=model.config.max_positions)
    stream = generate_ids(model, tokens, max_tokens=max_tokens, stop_ids=sorted(ends), progress=progress, **options)
    return _with_text(stream, text, ends)


def _with_text(
    stream: Iterator[GenerationResponse], text: TextStream, ends: frozenset[int]
) -> Iterator[GenerationResponse]:
    for each in stream:
        new = "" if each.token in ends else text.add(each.token)
        reason = "stop" if text.stop is not None else each.finish_reason
        if reason is not None:
            new += text.finish()
        yield replace(each, text=new, finish_reason=reason)
        if reason is not None:
            return


def generate(model: Any, tokenizer: Tokenizer, prompt: Prompt, *, verbose: bool = False, **options: Any) -> str:
    """The generated text; `options` are those of `stream_generate`. `verbose` also prints it as it arrives."""
    parts = []
    for response in stream_generate(model, tokenizer, prompt, **options):
        parts.append(response.text)
        if verbose:
            print(response.text, end="", flush=True)
    if verbose:
        print(f"\nprompt: {response.prompt_tokens} tokens, {response.prompt_tps:.1f} tokens/s")
        print(f"generation: {response.generation_tokens} tokens, {response.generation_tps:.1f} tokens/s")
        print(f"memory: {response.peak_memory:.3f} GB")
    return "".join(parts)


def embed(
    model: Any,
    tokenizer: Tokenizer,
    texts: str | Sequence[str],
    *,
    pooling: str | None = None,
    batch_size: int = 32,
) -> Array:
    """Unit-length vectors, one per text, [texts, hidden_size]; longer texts are truncated.

    >>> from mlx_native_py.models.tiny import write_tiny
    >>> model, tokenizer = load(write_tiny(folder / "tiny", "bert"), device)
    >>> embed(model, tokenizer, ["A cat sat.", "Cats sit."]).shape
    (2, 64)
    """
    if not hasattr(model, "embed_ids"):
        raise InvalidArgument(f"embed: {model!r} is a text generator and has no embeddings")
    ends = len(tokenizer.prefix) + len(tokenizer.suffix)
    room = max(_longest(model) - ends, 1)
    sequences = []
    for text in [texts] if isinstance(texts, str) else texts:
        tokens = tokenizer.encode(text, special=False, add_special_tokens=False)[:room]
        sequences.append([*tokenizer.prefix, *tokens, *tokenizer.suffix])
    vectors: Array = model.embed_ids(sequences, pooling=pooling, batch_size=batch_size)
    return vectors


def _longest(model: Any) -> int:
    """The maximum number of tokens: from sentence-transformers' config, limited to the model's positions."""
    most: int = model.config.max_positions
    beside = model.path / "sentence_bert_config.json"
    if model.path.is_dir() and beside.is_file():
        most = min(most, Fields(beside, read_table(beside)).count("max_seq_length", most))
    return most
