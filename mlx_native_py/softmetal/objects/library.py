"""Libraries of compiled MSL, their functions, and compile options."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import constants as c
from ..cache import CacheError
from ..compiler_process import ToolchainError
from ..misuse import InvalidValue
from ..program import CompileError, Constant, Diagnostic, KernelSignature, LibraryProgram, SourceOptions
from ..values import answer, instance, maybe, natural, optional_text, text, truth, unwanted, whole
from .argument_encoder import MTLArgumentEncoder
from .base import Descriptor, Labelled, NSObject, attribute
from .foundation import NSArray, NSError
from .function_constants import MTLFunctionConstantValues
from .owned import DeviceObject, Owned

HOST_FAILURES = (ToolchainError, CacheError, OSError)
METALLIB_MAGIC = b"MTLB"
MATH_MODES = {c.MTLMathModeSafe: "safe", c.MTLMathModeRelaxed: "relaxed", c.MTLMathModeFast: "fast"}
_NO_MACROS: Mapping[str, str] = {}
LANGUAGE_VERSIONS = frozenset({65537, 65538, *range(131072, 131077), *range(196608, 196611), 262144})


def _macros(value: Any, what: str) -> Mapping[str, str]:
    """Macro values are strings or numbers."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TypeError(f"{what} is {value!r}, expected a dict")
    for name, definition in value.items():
        if not isinstance(name, str) or isinstance(definition, bool) or not isinstance(definition, (str, int, float)):
            raise TypeError(f"{what}: {name!r} = {definition!r}, expected str names and str or number values")
    return {str(name): str(definition) for name, definition in value.items()}


def _math_mode(value: Any, what: str) -> int:
    mode = whole(value, what)
    if mode not in MATH_MODES:
        raise InvalidValue(f"{what} {mode} is not a math mode")
    return mode


def _language(value: Any, what: str) -> int:
    version = natural(value, what)
    if version not in LANGUAGE_VERSIONS:
        raise InvalidValue(f"{what} {version} is not a language version this device knows")
    return version


class MTLCompileOptions(Descriptor):
    """How a source is compiled."""

    languageVersion, setLanguageVersion_ = attribute("languageVersion", _language, c.MTLLanguageVersion3_2)
    mathMode, setMathMode_ = attribute("mathMode", _math_mode, c.MTLMathModeFast)
    mathFloatingPointFunctions, setMathFloatingPointFunctions_ = attribute("mathFloatingPointFunctions", whole, 0)
    preprocessorMacros, setPreprocessorMacros_ = attribute("preprocessorMacros", _macros, _NO_MACROS)
    optimizationLevel, setOptimizationLevel_ = attribute("optimizationLevel", whole, 0)
    enableLogging, setEnableLogging_ = attribute("enableLogging", truth, False)
    preserveInvariance, setPreserveInvariance_ = attribute("preserveInvariance", truth, False)
    libraryType, setLibraryType_ = attribute("libraryType", whole, c.MTLLibraryTypeExecutable)
    installName, setInstallName_ = attribute("installName", optional_text, None)

    def fastMathEnabled(self) -> bool:
        return self.mathMode() == c.MTLMathModeFast

    def setFastMathEnabled_(self, enabled: bool) -> None:
        self.setMathMode_(c.MTLMathModeFast if truth(enabled, "fastMathEnabled") else c.MTLMathModeSafe)

    def soft_values(self) -> SourceOptions:
        """The same as a value for the compiler."""
        version = self.languageVersion()
        return SourceOptions(
            macros=tuple(sorted(self.preprocessorMacros().items())),
            math_mode=MATH_MODES[self.mathMode()],  # type: ignore[arg-type]
            language_version=(version >> 16, version & 0xFFFF),
        )


class MTLFunctionDescriptor(Descriptor):
    """Which function to take from a library, with which constants."""

    name, setName_ = attribute("name", optional_text, None)
    specializedName, setSpecializedName_ = attribute("specializedName", optional_text, None)
    constantValues, setConstantValues_ = attribute("constantValues", maybe(MTLFunctionConstantValues), None)
    options, setOptions_ = attribute("options", natural, 0)

    @classmethod
    def functionDescriptor(cls) -> MTLFunctionDescriptor:
        return cls()


class MTLFunctionConstant(NSObject):
    """A constant that a function declares."""

    def __init__(self, constant: Constant) -> None:
        self._constant = constant

    def name(self) -> str:
        return self._constant.name

    def type(self) -> int:
        return self._constant.data_type

    def index(self) -> int:
        return self._constant.index

    def required(self) -> bool:
        return self._constant.required


@dataclass(frozen=True)
class FunctionState:
    """A kernel with the values of its constants, and its program."""

    program: LibraryProgram
    source: str
    digest: str  # of the source and its options
    kernel: KernelSignature
    constants: Mapping[int, bytes]
    name: str

    def key(self) -> str:
        """Names the code this function stands for, across processes."""
        values = sorted((index, value.hex()) for index, value in self.constants.items())
        return hashlib.sha256(repr((self.digest, self.kernel.name, values)).encode()).hexdigest()


class MTLFunction(Owned, Labelled):
    """A kernel of a library, with the values of its constants."""

    def __init__(self, device: DeviceObject, state: FunctionState) -> None:
        super().__init__(device)
        self.state = state

    def name(self) -> str:
        return self.state.name

    def functionType(self) -> int:
        return c.MTLFunctionTypeKernel

    def newArgumentEncoderWithBufferIndex_(self, index: int) -> MTLArgumentEncoder:
        """For the struct that the buffer argument of this index points to."""
        number = natural(index, "bufferIndex")
        taken = (each for each in self.state.kernel.arguments if each.kind == "buffer" and each.index == number)
        argument = next(taken, None)
        if argument is None:
            raise InvalidValue(f"function {self.name()}: it has no buffer of index {number}")
        try:
            members = self.state.program.argument_members(argument.type_name)
        except ValueError as reason:
            raise InvalidValue(f"function {self.name()}, buffer '{argument.name}': {reason}") from None
        return MTLArgumentEncoder(self._device, members)

    def functionConstantsDictionary(self) -> dict[str, MTLFunctionConstant]:
        return {constant.name: MTLFunctionConstant(constant) for constant in self.state.kernel.constants}


class FunctionArchive(Owned, Labelled):
    """Functions compiled ahead, by key; MTLBinaryArchive adds its selectors."""

    def __init__(self, device: DeviceObject, names: dict[str, str]) -> None:
        super().__init__(device)
        self.names = names  # by key


class MTLLibrary(Owned, Labelled):
    """The compiled form of one source."""

    def __init__(self, device: DeviceObject, program: LibraryProgram, source: str, digest: str) -> None:
        super().__init__(device)
        self._program = program
        self._source = source
        self._digest = digest

    def type(self) -> int:
        return c.MTLLibraryTypeExecutable

    def functionNames(self) -> NSArray[str]:
        return NSArray(self._program.kernels)

    def newFunctionWithName_(self, name: str) -> MTLFunction | None:
        kernel = self._program.kernels.get(text(name, "name"))
        return None if kernel is None else self._function(kernel, {}, kernel.name)

    def newFunctionWithName_constantValues_error_(
        self, name: str, values: MTLFunctionConstantValues | None, error: None
    ) -> Any:
        unwanted(error, "error")
        given = None if values is None else instance(values, MTLFunctionConstantValues, "constantValues")
        function, problem = self._specialise(text(name, "name"), given, None)
        return answer(function, (error, problem))

    def newFunctionWithDescriptor_error_(self, descriptor: MTLFunctionDescriptor, error: None) -> Any:
        unwanted(error, "error")
        asked = instance(descriptor, MTLFunctionDescriptor, "descriptor")
        function, problem = self._specialise(
            text(asked.name(), "name"), asked.constantValues(), asked.specializedName()
        )
        return answer(function, (error, problem))

    def _specialise(
        self, name: str, values: MTLFunctionConstantValues | None, new_name: str | None
    ) -> tuple[MTLFunction | None, NSError | None]:
        kernel = self._program.kernels.get(name)
        if kernel is None:
            message = f"Function {name} was not found in the library"
            return None, library_error(c.MTLLibraryErrorFunctionNotFound, message)
        resolved = (values or MTLFunctionConstantValues()).resolve(kernel)
        if isinstance(resolved, str):
            return None, library_error(c.MTLLibraryErrorCompileFailure, resolved)
        return self._function(kernel, resolved, new_name or name), None

    def _function(self, kernel: KernelSignature, constants: Mapping[int, bytes], name: str) -> MTLFunction:
        state = FunctionState(self._program, self._source, self._digest, kernel, constants, name)
        return MTLFunction(self._device, state)


def library_error(code: int, message: str) -> NSError:
    return NSError(c.MTLLibraryErrorDomain, code, message)


_ADVICE = {
    errno.EMFILE: "; close some files or raise the limit on open ones (ulimit -n)",
    errno.ENFILE: "; close files of other programs",
    errno.ENOSPC: "; make room where kernels are cached (MLX_SOFT_CACHE_DIR)",
    errno.ENOMEM: "; free some memory",
    errno.EAGAIN: "; raise the limit on processes (ulimit -u)",
}


def system_error(problem: Exception) -> NSError:
    """Why there is no code, where the machine, its compiler or the cache is to blame and not the source."""
    reason = str(problem)
    if isinstance(problem, OSError):
        reason = f"{problem.strerror or problem}{_ADVICE.get(problem.errno or 0, '')}"
    return library_error(c.MTLLibraryErrorInternal, f"The source could not be compiled: {reason}")


def _report(diagnostics: tuple[Diagnostic, ...]) -> str:
    return "\n".join(map(str, diagnostics)) + "\n"


def compile_source(
    device: DeviceObject,
    source: str,
    options: MTLCompileOptions | None,
) -> tuple[MTLLibrary | None, NSError | None]:
    """The library or why there is none; warnings come as an error beside a valid library, as Metal's do."""
    from ..msl import open_library  # slow to import, and not needed before the first kernel

    values = (options or MTLCompileOptions()).soft_values()
    digest = hashlib.sha256(repr((source, values)).encode(errors="surrogatepass")).hexdigest()
    try:
        program = open_library(source, values, compiler=device.state.compiler)
    except CompileError as refused:
        return None, library_error(c.MTLLibraryErrorCompileFailure, _report(refused.diagnostics))
    except HOST_FAILURES as problem:
        return None, system_error(problem)
    library = MTLLibrary(device, program, source, digest)
    if not program.warnings:
        return library, None
    message = f"Compilation succeeded with: \n\n{_report(program.warnings)}"
    return library, library_error(c.MTLLibraryErrorCompileWarning, message)


def read_library(device: DeviceObject, data: bytes) -> tuple[MTLLibrary | None, NSError | None]:
    """A library from stored bytes; the software's stored form is the MSL text itself."""
    if data.startswith(METALLIB_MAGIC):
        return None, library_error(
            c.MTLLibraryErrorUnsupported,
            "Invalid library: this is code for Apple GPUs (metallib); a software device needs the MSL source",
        )
    try:
        return compile_source(device, data.decode(), None)
    except UnicodeDecodeError:
        return None, library_error(c.MTLLibraryErrorInternal, "Invalid library: neither a metallib nor MSL text")


def load_library(device: DeviceObject, path: str) -> tuple[MTLLibrary | None, NSError | None]:
    """A library from a file."""
    try:
        data = Path(path).read_bytes()
    except OSError as problem:
        return None, library_error(c.MTLLibraryErrorFileNotFound, f"library not found at {path}: {problem.strerror}")
    return read_library(device, data)
