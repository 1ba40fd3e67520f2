"""Allow-lists of compiler builtins and attributes."""

from __future__ import annotations

import re

from .attributes import GNU_ATTRIBUTES
from .lexer import is_name
from .unit import Unit

_BUILTINS = frozenset(
    "__builtin_" + name
    for name in (
        "addressof assume assume_aligned bit_cast bswap16 bswap32 bswap64 clz clzl clzll constant_p convertvector "
        "ctz ctzl ctzll expect expect_with_probability ffs ffsl ffsll fabsf fmaf fmaxf fminf huge_valf inff "
        "is_constant_evaluated isfinite isinf isnan isnormal nanf nansf offsetof parity popcount popcountl "
        "popcountll rotateleft8 rotateleft16 rotateleft32 rotateleft64 rotateright8 rotateright16 rotateright32 "
        "rotateright64 shufflevector signbit trap types_compatible_p unpredictable unreachable bitreverse8 "
        "bitreverse16 bitreverse32 bitreverse64"
    ).split()
)
_BUILTIN_FAMILIES = re.compile(r"__builtin_(elementwise|reduce|(?:add|sub|mul)_overflow)\w*")
# Some of clang's own functions have other beginnings: they speak of the processor.
_BUILTIN = re.compile(
    r"__builtin_\w+|_mm_(?:clflush|[gs]etcsr|[lms]fence|pause|prefetch)|_m_prefetchw?|__(?:dmb|dsb|isb|sevl?|wf[ei]|yield|clear_cache|rdtsc|(?:xray|warn)_\w+)|"
    r"__(?:sync|atomic|c11_atomic|scoped_atomic|opencl_atomic|hip_atomic|nvvm|tsan|lane)_\w+|"
    r"__(?:arm|aarch64|ia32|amdgcn|nontemporal|sigsetjmp|debugbreak|fastfail|annotation|noop|va)\w*"
)
_LEFT_OUT = frozenset(
    (
        "extern asm __asm __asm__ __declspec __int128 __int128_t __uint128_t _Float16 __fp16 __bf16 __float128 "
        "_Float32 _Float64 _Float128 _BitInt _ExtInt __thread _Thread_local __try __except __finally __leave "
        "__block __weak __strong __autoreleasing __kernel __global __local __private __generic __constant "
        "__read_only __write_only __read_write __pipe __uuidof __super __import __label__ __builtin_va_arg "
        "__builtin_va_list _Complex _Imaginary _Accum _Fract _Sat __ptr32 __ptr64 __cdecl __stdcall __fastcall "
        "__vectorcall __pascal __regcall __unaligned __w64 __forceinline co_await co_return co_yield "
        "reinterpret_pointer_cast __objc_yes __objc_no __unsafe_unretained _Nonnull _Nullable _Null_unspecified "
        "__interface __if_exists __if_not_exists"
    ).split()
)
_LOOKED_AT = frozenset({"^", "__attribute__", "__attribute", "soft"})
_OPERAND_END = frozenset({")", "]", "}"})


def check_allowed(unit: Unit) -> None:
    """Notes an error for each name, attribute or construct that leads from MSL into the compiler or the machine."""
    for token in unit.tokens.places:
        if token in _LOOKED_AT or token in _LEFT_OUT or (token[0] == "_" and _BUILTIN.fullmatch(token)):
            for index in unit.tokens.places[token]:
                _check_token(unit, index, token)


def _check_token(unit: Unit, index: int, token: str) -> None:
    if token == "^":
        _block(unit, index)
    elif token == "extern" and _is_linkage_of_class(unit, index):
        unit.drop(index, index + 2)
    elif token in _LEFT_OUT:
        unit.error(index, f"'{token}' is not supported in Metal")
    elif token in ("__attribute__", "__attribute"):
        _attributes(unit, index)
    elif token == "soft":
        if _is_own_namespace(unit.tokens.text, index):
            unit.error(index, f"'{token}' belongs to software Metal itself")
    elif not _is_builtin(token):
        unit.error(index, f"builtin '{token}' is not supported in Metal")


def _is_linkage_of_class(unit: Unit, index: int) -> bool:
    """Whether `extern "C" struct S { ... };` is written, which says nothing about a class and declares no more."""
    text, match = unit.tokens.text, unit.tokens.match
    words = text[index + 1 : index + 5]
    if len(words) < 4 or words[0] != '"C"' or words[1] not in ("struct", "union") or words[3] != "{":
        return False
    return text[match[index + 4] + 1 : match[index + 4] + 2] == [";"]


def _is_own_namespace(text: list[str], index: int) -> bool:
    """Whether a name leads into the namespace of software Metal, other than by its header for tensors."""
    if text[index + 1 : index + 2] == ["::"]:
        return text[index + 2 : index + 4] != ["tensors", ";"]
    # `namespace soft`, `using namespace ::soft` and `namespace x = ::soft`.
    before = [word for word in text[max(index - 4, 0) : index] if word != "::"]
    return before[-1:] == ["namespace"] or (before[-3:-2] == ["namespace"] and before[-1] == "=")


def _is_builtin(token: str) -> bool:
    return token in _BUILTINS or bool(_BUILTIN_FAMILIES.fullmatch(token))


def _ends_operand(token: str) -> bool:
    return token in _OPERAND_END or (
        (is_name(token) or token[0].isdigit() or token[0] in "'\".") and token not in ("return", "case", "else", "do")
    )


def _block(unit: Unit, index: int) -> None:
    """A `^` that no operand stands before begins a block of C."""
    if index == 0 or not _ends_operand(unit.tokens.text[index - 1]):
        unit.error(index, "blocks are not supported in Metal")


def _attributes(unit: Unit, index: int) -> None:
    text, match = unit.tokens.text, unit.tokens.match
    if text[index + 1 : index + 3] != ["(", "("]:
        unit.error(index, "expected '((' after '__attribute__'")
        return
    at, end = index + 3, match[index + 2]
    while at < end:
        name = text[at].removeprefix("__").removesuffix("__")
        if text[at] != "," and name not in GNU_ATTRIBUTES:
            unit.error(at, f"unknown attribute '{text[at]}'")
        at = match[at + 1] + 1 if text[at + 1] == "(" else at + 1
