"""Tokenizers: the same tokens as the programs that the vocabularies were made for, and the same text back."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from mlx_native_py import InvalidArgument, ModelFileError
from mlx_native_py.models import load
from mlx_native_py.models.extras import MissingExtra, extra
from mlx_native_py.models.fetch import MODELS, fetch
from mlx_native_py.models.tokenizer import Tokenizer
from mlx_native_py.models.tokenizer.bpe import PRE_TOKENIZERS
from mlx_native_py.weights import open_gguf
from models.vocabularies import LINES, USER_DEFINED, byte_level, cats, trained, words

DIGITS = tokenizers.pre_tokenizers.Digits(individual_digits=True)
BYTES = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
SMOLLM = tokenizers.pre_tokenizers.Sequence([DIGITS, BYTES])
VOCAB, MERGES = trained(LINES, SMOLLM)
TEXTS = st.text() | st.lists(st.sampled_from([*"aeT 0159\n\t'!.é你🙂\u0301\u3000", "'ll", "  ", "<s>"])).map("".join)


def reference(cut: Any) -> Any:
    core = tokenizers.Tokenizer(tokenizers.models.BPE(VOCAB, MERGES))
    core.pre_tokenizer = cut
    return core


def gguf_tokenizer(pre: str, *special: str, **others: Any) -> Tokenizer:
    return Tokenizer.from_gguf(byte_level(pre, VOCAB, MERGES, *special, **others))


class TestByteLevel:
    smollm, gpt2 = gguf_tokenizer("smollm"), gguf_tokenizer("gpt-2")
    references = reference(SMOLLM), reference(BYTES)

    @given(TEXTS)
    def test_same_as_the_reference(self, text: str) -> None:
        for ours, theirs in zip((self.smollm, self.gpt2), self.references, strict=True):
            assert ours.encode(text) == theirs.encode(text).ids

    @given(TEXTS)
    def test_text_comes_back(self, text: str) -> None:
        for tokenizer in (self.smollm, self.gpt2):
            assert tokenizer.decode(tokenizer.encode(text)) == text

    @pytest.mark.parametrize("pre", sorted(PRE_TOKENIZERS))
    def test_every_pre_tokeniser_keeps_the_text(self, pre: str) -> None:
        tokenizer = gguf_tokenizer(pre)
        for line in LINES:
            assert tokenizer.decode(tokenizer.encode(line)) == line

    @pytest.mark.parametrize(
        ("pre", "text", "parts"),
        [
            ("gpt-2", "I'll pay 1234 ", ["I", "'ll", " pay", " 1234", " "]),
            ("smollm", "pay 12 ", ["pay", " ", "1", "2", " "]),
            ("llama-bpe", "I'LL pay 12345\n\n x", ["I", "'LL", " pay", " ", "123", "45", "\n\n", " x"]),
            ("qwen2", "(a) 12\n  b", ["(a", ")", " ", "1", "2", "\n", " ", " b"]),
            ("qwen35", "a\u0301b", ["a\u0301b"]),
            ("tekken", "HelloWorld 12/\n", ["Hello", "World", " ", "1", "2", "/\n"]),
            ("gpt-4o", "HelloWorld's 1234", ["Hello", "World's", " ", "123", "4"]),
            ("deepseek-v3", "你好 abc1234!x", ["你好", " abc", "123", "4", "!x"]),
        ],
    )
    def test_cuts(self, pre: str, text: str, parts: list[str]) -> None:
        cut = tokenizers.pre_tokenizers.Sequence(
            [tokenizers.pre_tokenizers.Split(tokenizers.Regex(s), "isolated") for s in PRE_TOKENIZERS[pre].splits]
        )
        assert [part for part, _ in cut.pre_tokenize_str(text)] == parts

    def test_control_tokens(self) -> None:
        tokenizer = gguf_tokenizer("smollm", "<|im_start|>", "<|im_end|>", eos_token_id=len(VOCAB) + 1)
        text, (start, end) = "<|im_start|>hi<|im_end|>", tokenizer.ids_of("<|im_start|>", "<|im_end|>")
        tokens = tokenizer.encode(text)
        assert (tokens[0], tokens[-1], tokenizer.eos_token_ids) == (start, end, frozenset({end}))
        assert (tokenizer.decode(tokens), tokenizer.decode(tokens, special=True)) == ("hi", text)
        literal = tokenizer.encode(text, special=False)
        assert not {start, end} & set(literal) and tokenizer.decode(literal) == text

    def test_bos_is_there_once(self) -> None:
        bos = len(VOCAB)
        tokenizer = gguf_tokenizer("llama-bpe", "<|begin|>", bos_token_id=bos)
        plain = tokenizer.encode("hi", add_special_tokens=False)
        assert tokenizer.encode("hi") == tokenizer.encode("<|begin|>hi") == [bos, *plain]
        assert gguf_tokenizer("llama-bpe", "<|begin|>", bos_token_id=bos, add_bos_token=False).encode("hi") == plain

    def test_whole_words_come_before_merges(self) -> None:
        ids = {**VOCAB, "zzz": len(VOCAB)}
        for pre, expected in (("llama-bpe", 1), ("qwen2", 3)):
            assert len(Tokenizer.from_gguf(byte_level(pre, ids, MERGES)).encode("zzz")) == expected

    def test_threads_share_it(self) -> None:
        tokenizer = gguf_tokenizer("smollm", "<|a|>")
        expected = {special: tokenizer.encode("x<|a|>y", special=special) for special in (True, False)}
        wrong: list[bool] = []

        def work(special: bool) -> None:
            wrong.extend(
                special for _ in range(200) if tokenizer.encode("x<|a|>y", special=special) != expected[special]
            )

        threads = [threading.Thread(target=work, args=(bool(n % 2),)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []


class TestSentencePiece:
    tokenizer = Tokenizer.from_gguf(cats())

    @pytest.mark.parametrize(
        ("text", "tokens"),
        [
            ("the cat sat", [262, 269, 275]),
            ("  two  spaces ", [295, 295, 292, 122, 302, 295, 273, 115, 297, 303, 300, 306, 295]),
            ("that's théâtre", [280, 42, 306, 261, 198, 172, 198, 165, 296, 276]),
            ("on\nthe mat", [268, 13, 260, 300, 274]),
            ("<s>cat", [295, 63, 306, 65, 293]),
            ("zebra 🙂", [295, 125, 300, 101, 290, 295, 243, 162, 156, 133]),
            ("", []),
        ],
    )
    def test_same_as_sentencepiece(self, text: str, tokens: list[int]) -> None:
        assert self.tokenizer.encode(text, special=False, add_special_tokens=False) == tokens
        assert self.tokenizer.decode(tokens) == text

    @given(TEXTS)
    def test_text_comes_back(self, text: str) -> None:
        tokens = self.tokenizer.encode(text, special=False)
        assert tokens[0] == 1 and self.tokenizer.decode(tokens) == text

    @given(st.lists(st.sampled_from(["the", " ", "cat", "th", "at", "\u2581", "é"])).map("".join))
    def test_words_are_on_their_own_or_not(self, text: str) -> None:
        across = Tokenizer.from_gguf(cats(("x▁y", 1)))
        assert across.encode(text) == self.tokenizer.encode(text)

    def test_control_and_own_tokens(self) -> None:
        tokenizer = Tokenizer.from_gguf(cats(("<tool>", USER_DEFINED), ("<to", USER_DEFINED)))
        own = tokenizer.ids_of("<tool>")[0]
        assert tokenizer.encode("<tool>cat</s>", add_special_tokens=False) == [own, 269, 2]
        assert own in tokenizer.encode("a<tool>", special=False)
        assert tokenizer.decode([1, own, 269, 2]) == "<tool> cat"
        assert tokenizer.decode([269, 2], special=True) == "cat</s>"

    def test_without_space_prefix_and_without_bytes(self) -> None:
        tokenizer = Tokenizer.from_gguf(cats(add_space_prefix=False, add_eos_token=True))
        assert tokenizer.encode("cat") == [1, 293, 2] and tokenizer.decode([269]) == " cat"
        table = cats()
        table["tokenizer.ggml.tokens"][3] = "no byte"
        assert Tokenizer.from_gguf(table).encode("é", add_special_tokens=False) == [295, 0]

    def test_long_text_is_quick(self) -> None:
        assert len(self.tokenizer.encode("the cat " * 20_000 + "x" * 20_000)) > 40_000


class TestWordPiece:
    tokenizer = Tokenizer.from_gguf(words())

    @pytest.mark.parametrize(
        ("text", "tokens", "back"),
        [
            ("playing, the CATS", [2, 5, 6, 11, 8, 9, 10, 3], "playing , the cats"),
            ("Résumé 你 zebra", [2, 12, 13, 1, 3], "resume 你"),
            ("[MASK] played", [2, 4, 5, 7, 3], "played"),
            ("", [2, 3], ""),
        ],
    )
    def test_tokens(self, text: str, tokens: list[int], back: str) -> None:
        assert self.tokenizer.encode(text) == tokens
        assert self.tokenizer.decode(tokens) == back

    def test_cased(self) -> None:
        tokenizer = Tokenizer.from_gguf(words(**{"normalizer.lowercase": False}))
        assert tokenizer.encode("The the", add_special_tokens=False) == [1, 8]


class TestFromFile:
    def saved(self, folder: Path, **config: Any) -> Path:
        core = reference(SMOLLM)
        core.decoder = tokenizers.decoders.ByteLevel()
        core.add_special_tokens(["<s>", "</s>"])
        bos = ("<s>", len(VOCAB))
        core.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[bos])
        core.enable_padding(length=64)
        core.enable_truncation(4)
        core.save(str(folder / "tokenizer.json"))
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
        return folder

    def test_same_as_from_gguf(self, tmp_path: Path) -> None:
        config = {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "chat_template": "{{ bos_token }}x"}
        tokenizer = Tokenizer.from_file(self.saved(tmp_path, **config))
        twin = gguf_tokenizer("smollm", "<s>", "</s>", bos_token_id=len(VOCAB), add_bos_token=True)
        for line in LINES:
            assert tokenizer.encode(line) == twin.encode(line)
            assert tokenizer.decode(twin.encode(line)) == line
        assert (tokenizer.bos_token_id, tokenizer.eos_token_ids) == (len(VOCAB), frozenset({len(VOCAB) + 1}))
        assert tokenizer.apply_chat_template([], tokenize=False) == "<s>x"
        assert tokenizer.vocab_size == len(VOCAB) + 2

    def test_what_stands_beside_it(self, tmp_path: Path) -> None:
        self.saved(tmp_path, chat_template=[{"name": "default", "template": "one"}])
        assert Tokenizer.from_file(tmp_path / "tokenizer.json").chat_template == "one"
        (tmp_path / "chat_template.jinja").write_text("two")
        (tmp_path / "generation_config.json").write_text('{"eos_token_id": [3, 4]}')
        tokenizer = Tokenizer.from_file(tmp_path)
        assert (tokenizer.chat_template, tokenizer.eos_token_ids) == ("two", frozenset({3, 4}))

    def test_sentence_pieces(self, tmp_path: Path) -> None:
        core = tokenizers.Tokenizer(tokenizers.models.BPE({"▁a": 0, "b": 1, "<0xC3>": 2, "<0xA9>": 3}, []))
        steps = tokenizers.decoders
        core.decoder = steps.Sequence(
            [steps.Replace("▁", " "), steps.ByteFallback(), steps.Fuse(), steps.Strip(" ", 1, 0)]
        )
        core.save(str(tmp_path / "tokenizer.json"))
        assert Tokenizer.from_file(tmp_path).decode([0, 1, 2, 3, 0]) == "abé a"

    @pytest.mark.parametrize("text", ["", "{}", "[" * 100_000, '{"model": 1}', "\x00"])
    def test_damaged_files(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "tokenizer.json").write_text(text)
        with pytest.raises(ModelFileError, match="not a tokenizer"):
            Tokenizer.from_file(tmp_path)

    @pytest.mark.parametrize("text", ["", "[]", "[" * 100_000])
    def test_damaged_config(self, tmp_path: Path, text: str) -> None:
        self.saved(tmp_path)
        (tmp_path / "tokenizer_config.json").write_text(text)
        with pytest.raises(ModelFileError, match="tokenizer_config"):
            Tokenizer.from_file(tmp_path)

    def test_a_number_does_not_decide_about_memory(self, tmp_path: Path) -> None:
        table = json.loads((self.saved(tmp_path) / "tokenizer.json").read_text())
        table["model"]["vocab"]["far"] = 4_000_000_000
        (tmp_path / "tokenizer.json").write_text(json.dumps(table))
        with pytest.raises(ModelFileError, match="the id 4000000000"):
            Tokenizer.from_file(tmp_path)

    def test_text_that_it_cannot_take(self, tmp_path: Path) -> None:
        core = tokenizers.Tokenizer(tokenizers.models.WordPiece({"a": 0}, unk_token="[UNK]"))
        core.decoder = tokenizers.decoders.WordPiece()
        core.save(str(tmp_path / "tokenizer.json"))
        with pytest.raises(InvalidArgument, match="cannot encode this text"):
            Tokenizer.from_file(tmp_path).encode("b")

    def test_unknown_decoder_and_missing_file(self, tmp_path: Path) -> None:
        tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, "a")).save(str(tmp_path / "tokenizer.json"))
        with pytest.raises(ModelFileError, match="decoder"):
            Tokenizer.from_file(tmp_path)
        with pytest.raises(InvalidArgument, match="tokenizer.json"):
            Tokenizer.from_file(tmp_path / "none")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"model": "t5"}, "model"),
        ({"model": 3}, "model"),
        ({"tokens": None}, "tokens"),
        ({"tokens": []}, "tokens"),
        ({"tokens": "abc"}, "tokens"),
        ({"tokens": np.arange(3)}, "tokens"),
        ({"token_type": [1, 2]}, "token_type"),
        ({"token_type": ["a"] * 310}, "token_type"),
        ({"scores": None}, "scores"),
        ({"scores": [float("nan")] * 310}, "scores"),
        ({"add_bos_token": "yes"}, "add_bos_token"),
        ({"model": "gpt2", "pre": "no-such"}, "pre"),
        ({"model": "gpt2", "pre": "gpt-2"}, "merges"),
        ({"model": "gpt2", "pre": "gpt-2", "merges": ["a"]}, "merges"),
        ({"model": "gpt2", "pre": "gpt-2", "merges": ["q q"]}, "merges"),
        ({"model": "bert", "unknown_token_id": 999}, "unknown_token_id"),
    ],
)
def test_damaged_metadata(changes: dict[str, Any], field: str) -> None:
    table = cats() | {f"tokenizer.ggml.{key}": value for key, value in changes.items()}
    with pytest.raises(ModelFileError, match=f"cat.gguf: tokenizer.ggml.{field}: "):
        Tokenizer.from_gguf(table, path="cat.gguf")


JUNK = (
    st.none()
    | st.booleans()
    | st.integers(-5, 2**64)
    | st.floats()
    | st.text(max_size=3)
    | st.lists(st.text(max_size=3) | st.integers() | st.lists(st.integers(), max_size=2), max_size=310)
    | st.sampled_from(["gpt2", "llama", "bert", "qwen2", np.zeros(310), np.zeros((2, 2), bool)])
)
KEYS = "model pre tokens token_type scores merges bos_token_id unknown_token_id add_bos_token add_space_prefix".split()


@given(st.dictionaries(st.sampled_from(KEYS), JUNK), st.sampled_from(["gpt2", "llama", "bert"]))
def test_any_metadata(changes: dict[str, Any], model: str) -> None:
    table = cats(merges=["t h"], pre="gpt-2") | {"tokenizer.ggml.model": model}
    try:
        tokenizer = Tokenizer.from_gguf(table | {f"tokenizer.ggml.{key}": value for key, value in changes.items()})
        tokenizer.decode(tokenizer.encode("the cat\n<s>"))
    except ModelFileError:
        pass


def test_misuse() -> None:
    tokenizer = Tokenizer.from_gguf(cats())
    for wrong in (-1, tokenizer.vocab_size):
        with pytest.raises(InvalidArgument, match="not in the vocabulary"):
            tokenizer.decode([wrong])
    with pytest.raises(InvalidArgument, match="'dog' is not"):
        tokenizer.ids_of("▁cat", "dog")
    with pytest.raises(InvalidArgument, match="expected a str"):
        tokenizer.encode(b"cat")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="no chat template"):
        tokenizer.apply_chat_template([])


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingExtra, match=r"pip install 'mlx-native-py\[models\]'"):
        extra("tokenizers")


def test_a_missing_package_is_said_before_a_model_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingExtra, match="tokenizers is not installed"):
        load("there is no such model")


@pytest.mark.full
class TestRealModels:
    def test_smollm2(self) -> None:
        tokenizer = Tokenizer.from_gguf(open_gguf(fetch(MODELS["smollm2"])).metadata)
        assert tokenizer.encode("The capital of France is") == [504, 3575, 282, 4649, 314]
        assert tokenizer.encode("<|im_start|>user\nhi<|im_end|>") == [1, 4093, 198, 6004, 2]
        assert (tokenizer.vocab_size, tokenizer.eos_token_ids) == (49152, frozenset({0, 2}))
        core = tokenizers.Tokenizer(tokenizer.encoder._core.model)  # type: ignore[attr-defined]
        core.pre_tokenizer = SMOLLM
        for page in sorted((Path(__file__).parents[2] / "docs").glob("*.md")):
            text = page.read_text()
            assert tokenizer.encode(text, special=False) == core.encode(text).ids
            assert tokenizer.decode(tokenizer.encode(text, special=False)) == text

    def test_minilm(self) -> None:
        tokenizer = Tokenizer.from_file(fetch(MODELS["minilm"]))
        assert tokenizer.encode("Hello, World! playing") == [101, 7592, 1010, 2088, 999, 2652, 102]
        pieces = tokenizer.pieces
        kinds = [3 if token in pieces.control else 1 for token in range(tokenizer.vocab_size)]
        names = [
            name if kind == 3 else name[2:] if name.startswith("##") else f"▁{name}"
            for name, kind in zip(pieces.names, kinds, strict=True)
        ]
        table = {"model": "bert", "tokens": names, "token_type": kinds, "unknown_token_id": 100}
        twin = Tokenizer.from_gguf({f"tokenizer.ggml.{key}": value for key, value in table.items()})
        for page in sorted((Path(__file__).parents[2] / "docs").glob("*.md")):
            for line in page.read_text().splitlines():
                assert tokenizer.encode(line) == twin.encode(line)
