"""The tokenizer of a model: text to tokens and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol, overload

from ...errors import InvalidArgument
from ...json_fields import read_table
from ..chat import ChatTemplate
from .bpe import byte_level_bpe
from .core import CoreEncoder, ends_of, open_core, pieces_of, word_pieces
from .pieces import Pieces, spell_bytes, spell_sentence_piece, spell_word_piece
from .spm import SentencePieces
from .stream import TextStream
from .vocabulary import GgufVocabulary, Kind

__all__ = ["TextEncoder", "Tokenizer"]


class TextEncoder(Protocol):
    """Encodes text, without the tokens added before and after it."""

    def encode(self, text: str, special: bool) -> list[int]: ...


@dataclass(frozen=True, repr=False)
class Tokenizer:
    """The tokenizer of a model; the names are mlx-lm's."""

    encoder: TextEncoder
    pieces: Pieces
    prefix: tuple[int, ...] = ()
    """Tokens added before every text."""
    suffix: tuple[int, ...] = ()
    """Tokens added after every text."""
    bos_token_id: int | None = None
    eos_token_id: int | None = None
    pad_token_id: int | None = None
    eos_token_ids: frozenset[int] = frozenset()
    """All tokens that end an answer."""
    chat_template: str | None = None
    _ids: dict[str, int] = field(init=False, repr=False, default_factory=dict)

    def __repr__(self) -> str:
        ends = ", ".join(repr(self.pieces.names[token]) for token in sorted(self.eos_token_ids)[:3])
        chat = ", chat template" * (self.chat_template is not None)
        return f"<Tokenizer of {len(self.pieces.names)} tokens{f', ends with {ends}' * bool(ends)}{chat}>"

    @classmethod
    def of_model(cls, path: Path, metadata: Mapping[str, Any]) -> Tokenizer:
        """The tokenizer in a model's folder, or in the metadata of a GGUF file."""
        return cls.from_file(path) if path.is_dir() else cls.from_gguf(metadata, path=path)

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, Any], *, path: Path | str = "metadata") -> Tokenizer:
        """The tokenizer in the metadata of a GGUF file; `path` is used in messages only."""
        vocabulary = GgufVocabulary.read(metadata, path)
        kind = vocabulary.text("model")
        if kind not in _GGUF:
            raise vocabulary.error("model", f"{kind!r:.60} is not supported; there are: {', '.join(_GGUF)}")
        encoder, pieces, add_bos, add_eos = _GGUF[kind](vocabulary)
        is_bert = kind == "bert"
        bos = vocabulary.id("cls", "bos", name="[CLS]") if is_bert else vocabulary.id("bos")
        eos = vocabulary.id("seperator", "separator", "eos", name="[SEP]") if is_bert else vocabulary.id("eos")
        template = metadata.get("tokenizer.chat_template")
        return cls(
            encoder,
            pieces,
            (bos,) if bos is not None and vocabulary.flag("add_bos_token", add_bos) else (),
            (eos,) if eos is not None and vocabulary.flag("add_eos_token", add_eos) else (),
            bos,
            eos,
            vocabulary.id("padding"),
            vocabulary.ends(),
            template if isinstance(template, str) else None,
        )

    @classmethod
    def from_file(cls, path: Path | str) -> Tokenizer:
        """The tokenizer of a `tokenizer.json`, or of a folder with one.

        Also reads `tokenizer_config.json`, `generation_config.json` and `chat_template.jinja` next to it.
        """
        place = Path(path) / "tokenizer.json" if Path(path).is_dir() else Path(path)
        if not place.is_file():
            raise InvalidArgument(f"{place} is not a file; expected a tokenizer.json")
        core = open_core(place)
        pieces = pieces_of(core, place)
        prefix, suffix = ends_of(core, place)
        config = _table(place.with_name("tokenizer_config.json"))
        bos = _token(core, config, "bos_token", "cls_token")
        eos = _token(core, config, "eos_token", "sep_token")
        pad = _token(core, config, "pad_token")
        ends = {eos, *_numbers(_table(place.with_name("generation_config.json")).get("eos_token_id"))} - {None}
        return cls(
            CoreEncoder(core),
            pieces,
            tuple(prefix),
            tuple(suffix),
            bos,
            eos,
            pad,
            frozenset(end for end in ends if end is not None),
            _template(config, place.with_name("chat_template.jinja")),
        )

    @property
    def vocab_size(self) -> int:
        return len(self.pieces.names)

    @cached_property
    def longest_piece(self) -> int:
        """Characters of the longest name in the vocabulary, an upper bound on the text of a token."""
        return max(map(len, self.pieces.names), default=1)

    def encode(self, text: str, *, special: bool = True, add_special_tokens: bool = True) -> list[int]:
        """The tokens of a text.

        `special` recognises names of control tokens in the text; pass False for untrusted text. `add_special_tokens`
        adds the tokens that the model expects before and after a text, unless they are present.
        """
        if not isinstance(text, str):
            raise InvalidArgument(f"encode: text is a {type(text).__name__}, expected a str")
        tokens = self.encoder.encode(text, special)
        if not add_special_tokens:
            return tokens
        prefix = [] if tuple(tokens[: len(self.prefix)]) == self.prefix else self.prefix
        suffix = [] if self.suffix and tuple(tokens[-len(self.suffix) :]) == self.suffix else self.suffix
        return [*prefix, *tokens, *suffix]

    def decode(self, tokens: Iterable[int], *, special: bool = False) -> str:
        """The text of tokens, without control tokens unless `special`; invalid bytes become U+FFFD."""
        return self.pieces.spelled(list(tokens), special=special).decode(errors="replace")

    def stream(self, *, stop: Sequence[str] = (), special: bool = False) -> TextStream:
        """A stream that decodes tokens one by one, as a continuation of a prompt."""

        def piece(token: int) -> bytes:
            # Models pad the vocabulary to round sizes and may sample one of the padding rows.
            is_known = token < self.vocab_size
            return self.pieces.piece(token, special=special) if is_known else "\ufffd".encode()

        return TextStream(piece, stop=stop)

    def ids_of(self, *names: str) -> list[int]:
        """The ids of tokens by name."""
        if not self._ids:
            self._ids.update((name, token) for token, name in reversed(list(enumerate(self.pieces.names))))
        if missing := [name for name in names if name not in self._ids]:
            raise InvalidArgument(f"{missing[0]!r} is not in the vocabulary of {self.vocab_size}")
        return [self._ids[name] for name in names]

    @overload
    def apply_chat_template(self, messages: Any, *, tokenize: Literal[False], **values: Any) -> str: ...
    @overload
    def apply_chat_template(self, messages: Any, *, tokenize: Literal[True] = True, **values: Any) -> list[int]: ...
    def apply_chat_template(self, messages: Any, *, tokenize: bool = True, **values: Any) -> str | list[int]:
        """The prompt for messages `[{"role": "user", "content": "..."}]`, rendered by the model's template.

        `values` are passed to the template, such as `add_generation_prompt=True` and `tools`.
        """
        if self.chat_template is None:
            raise InvalidArgument("the model has no chat template; encode a prompt instead")
        names = {"bos_token": self.bos_token_id, "eos_token": self.eos_token_id, "pad_token": self.pad_token_id}
        known = {key: self.pieces.names[token] for key, token in names.items() if token is not None}
        text = ChatTemplate(self.chat_template).render(messages, **{**known, **values})
        # The template already contains the tokens before and after.
        return self.encode(text, add_special_tokens=False) if tokenize else text


_Parts = tuple[TextEncoder, Pieces, bool, bool]


def _byte_level(vocabulary: GgufVocabulary) -> _Parts:
    core, cut = byte_level_bpe(vocabulary)
    return CoreEncoder(core), _pieces(vocabulary, vocabulary.names, spell_bytes), cut.add_bos, False


def _sentence_pieces(vocabulary: GgufVocabulary) -> _Parts:
    leads = vocabulary.flag("add_space_prefix", True)
    return SentencePieces(vocabulary), _pieces(vocabulary, vocabulary.names, spell_sentence_piece, leads), True, False


def _word_pieces(vocabulary: GgufVocabulary) -> _Parts:
    core, names = word_pieces(vocabulary)
    return CoreEncoder(core), _pieces(vocabulary, names, spell_word_piece, True), True, True


def _pieces(
    vocabulary: GgufVocabulary, names: Sequence[str], spell: Callable[[str], bytes], leads_with_space: bool = False
) -> Pieces:
    control = vocabulary.of_kind(Kind.CONTROL, Kind.UNKNOWN)
    plain = frozenset([*control, *vocabulary.of_kind(Kind.USER_DEFINED)])
    return Pieces(names, spell, plain, frozenset(control), leads_with_space)


_GGUF: dict[str, Callable[[GgufVocabulary], _Parts]] = {
    "gpt2": _byte_level,
    "llama": _sentence_pieces,
    "bert": _word_pieces,
}


def _table(path: Path) -> dict[str, Any]:
    """The contents of a JSON file; empty if it does not exist."""
    return read_table(path) if path.is_file() else {}


def _token(core: Any, config: Mapping[str, Any], *roles: str) -> int | None:
    for role in roles:
        name = config.get(role)
        text = name.get("content") if isinstance(name, dict) else name
        if isinstance(text, str):
            token: int | None = core.token_to_id(text)
            return token
    return None


def _numbers(value: Any) -> list[int]:
    return [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, int)]


def _template(config: Mapping[str, Any], beside: Path) -> str | None:
    if beside.is_file():
        return beside.read_text(encoding="utf-8", errors="replace")
    template = config.get("chat_template")
    if isinstance(template, list):
        named = {each.get("name"): each.get("template") for each in template if isinstance(each, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else None
