"""Libraries, functions, constants and pipelines, and the error objects they answer with."""

from __future__ import annotations

import ctypes
import struct
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlx_native_py import softmetal as Metal

from .objects_kit import SOURCE, array, buffer, finish, library, pipeline


def values(**given: Any) -> Any:
    constants = Metal.MTLFunctionConstantValues.alloc().init()
    kinds = {
        "scale": ("<f", Metal.MTLDataTypeFloat),
        "twice": ("<?", Metal.MTLDataTypeBool),
        "has_extra": ("<?", Metal.MTLDataTypeBool),
    }
    for name, value in given.items():
        constants.setConstantValue_type_withName_(struct.pack(kinds[name][0], value), kinds[name][1], name)
    return constants


def test_a_compile_error_is_an_error_object(device: Any) -> None:
    source = "#include <metal_stdlib>\nusing namespace metal;\nkernel void k(device float* a) { a[0] = nothing; }\n"
    library, error = device.newLibraryWithSource_options_error_(source, None, None)
    assert library is None
    assert (error.domain(), error.code()) == ("MTLLibraryErrorDomain", Metal.MTLLibraryErrorCompileFailure)
    assert "program_source:3:" in error.localizedDescription()
    assert "error: " in error.localizedDescription()


def test_a_warning_comes_beside_a_library(device: Any) -> None:
    library, error = device.newLibraryWithSource_options_error_(
        '#warning "old"\nkernel void k(device int* a) {}', None, None
    )
    assert list(library.functionNames()) == ["k"]
    assert error.code() == Metal.MTLLibraryErrorCompileWarning
    assert error.localizedDescription().startswith("Compilation succeeded with: \n\nprogram_source:1:")


def test_options_reach_the_compiler(device: Any) -> None:
    options = Metal.MTLCompileOptions.new()
    options.setPreprocessorMacros_({"N": 4, "NAME": "chosen"})
    options.setLanguageVersion_(Metal.MTLLanguageVersion3_1)
    options.setFastMathEnabled_(False)
    assert options.mathMode() == Metal.MTLMathModeSafe
    library, error = device.newLibraryWithSource_options_error_(
        "kernel void NAME(device int* a) { a[0] = N; }", options, None
    )
    assert error is None
    assert list(library.functionNames()) == ["chosen"]
    with pytest.raises(TypeError):
        options.setPreprocessorMacros_({1: "x"})
    with pytest.raises(ValueError, match="language version"):
        options.setLanguageVersion_(7)


def test_asynchronous_library_and_pipeline(device: Any) -> None:
    answers: list[Any] = []
    done = threading.Event()

    def take(*given: Any) -> None:
        answers.append(given)
        done.set()

    device.newLibraryWithSource_options_completionHandler_(SOURCE, None, take)
    assert done.wait(30)
    result, error = answers.pop()
    assert error is None
    done.clear()
    device.newComputePipelineStateWithFunction_completionHandler_(result.newFunctionWithName_("add"), take)
    assert done.wait(30)
    state, error = answers.pop()
    assert error is None
    assert state.threadExecutionWidth() == 32


def test_libraries_from_files(device: Any, tmp_path: Path) -> None:
    stored = tmp_path / "k.metal"
    stored.write_text(SOURCE)
    library, error = device.newLibraryWithURL_error_(Metal.NSURL.fileURLWithPath_(str(stored)), None)
    assert error is None
    assert "add" in library.functionNames()
    library, error = device.newLibraryWithURL_error_(Metal.NSURL.fileURLWithPath_(str(tmp_path / "none")), None)
    assert (library, error.code()) == (None, Metal.MTLLibraryErrorFileNotFound)
    library, error = device.newLibraryWithData_error_(b"MTLB\0\0", None)
    assert (library, error.code()) == (None, Metal.MTLLibraryErrorUnsupported)


def test_functions_by_name(device: Any) -> None:
    assert library(device).newFunctionWithName_("nobody") is None
    function, error = library(device).newFunctionWithName_constantValues_error_("nobody", values(), None)
    assert (function, error.code()) == (None, Metal.MTLLibraryErrorFunctionNotFound)
    declared = library(device).newFunctionWithName_("scaled").functionConstantsDictionary()
    assert {name: (c.index(), c.type()) for name, c in declared.items()} == {
        "scale": (0, Metal.MTLDataTypeFloat),
        "twice": (1, Metal.MTLDataTypeBool),
        "has_extra": (2, Metal.MTLDataTypeBool),
    }


def scaled(device: Any, given: Any) -> Any:
    function, error = library(device).newFunctionWithName_constantValues_error_("scaled", given, None)
    assert error is None
    state, error = device.newComputePipelineStateWithFunction_error_(function, None)
    assert error is None
    return state


def run_scaled(device: Any, state: Any, *extra: Any) -> list[float]:
    data = buffer(np.array([1, 2, 3], np.float32))
    queue = device.newCommandQueue()
    command_buffer = queue.commandBuffer()
    encoder = command_buffer.computeCommandEncoder()
    encoder.setComputePipelineState_(state)
    for index, bound in enumerate((data, *extra)):
        encoder.setBuffer_offset_atIndex_(bound, 0, index)
    encoder.dispatchThreads_threadsPerThreadgroup_((3, 1, 1), (3, 1, 1))
    encoder.endEncoding()
    finish(command_buffer)
    return [float(x) for x in array(data)]


def test_constants_by_name_index_and_address(device: Any) -> None:
    assert run_scaled(device, scaled(device, values(scale=3, twice=True, has_extra=False))) == [6, 12, 18]
    given = Metal.MTLFunctionConstantValues.alloc().init()
    scale = ctypes.c_float(0.5)
    given.setConstantValue_type_atIndex_(ctypes.addressof(scale), Metal.MTLDataTypeFloat, 0)
    scale.value = 9.0  # it was copied
    given.setConstantValues_type_withRange_(b"\0\1", Metal.MTLDataTypeBool, (1, 2))
    extra = buffer(np.array([10, 20, 30], np.float32))
    state = scaled(device, given)
    assert run_scaled(device, state, extra) == [10.5, 21, 31.5]
    assert [binding.name() for binding in state.reflection().bindings()] == ["b", "extra"]


def test_a_reference_that_is_switched_off_reads_zeros(device: Any) -> None:
    source = """constant bool on [[function_constant(0)]];
    kernel void k(device float* out [[buffer(0)]], constant float4& p [[buffer(1), function_constant(on)]],
                  device float* other [[buffer(30)]], uint i [[thread_position_in_grid]]) {
      out[i] = p.w + other[i];
    }"""
    library, error = device.newLibraryWithSource_options_error_(source.replace("float4", "metal::float4"), None, None)
    assert library is not None, error
    given = Metal.MTLFunctionConstantValues.alloc().init()
    given.setConstantValue_type_atIndex_(b"\0", Metal.MTLDataTypeBool, 0)
    function, error = library.newFunctionWithName_constantValues_error_("k", given, None)
    assert function is not None, error
    state, error = device.newComputePipelineStateWithFunction_error_(function, None)
    assert state is not None, error
    unused = [None] * 29
    assert run_scaled(device, state, *unused, buffer(np.array([4, 5, 6, 7], np.float32))) == [4, 5, 6]


def test_missing_and_mistyped_constants(device: Any) -> None:
    function, error = library(device).newFunctionWithName_constantValues_error_("scaled", values(scale=1), None)
    assert function is None
    assert "'twice'" in error.localizedDescription()
    wrong = values(scale=1, has_extra=False)
    wrong.setConstantValue_type_atIndex_(struct.pack("<I", 1), Metal.MTLDataTypeUInt, 1)
    function, error = library(device).newFunctionWithName_constantValues_error_("scaled", wrong, None)
    assert function is None
    assert "declared as bool" in error.localizedDescription()
    state, error = device.newComputePipelineStateWithFunction_error_(
        library(device).newFunctionWithName_("scaled"), None
    )
    assert state is None
    assert "have no value" in error.localizedDescription()
    with pytest.raises(ValueError, match="fewer than the 4"):
        wrong.setConstantValue_type_atIndex_(b"\0", Metal.MTLDataTypeFloat, 0)
    with pytest.raises(ValueError, match="address"):
        wrong.setConstantValue_type_atIndex_(0, Metal.MTLDataTypeFloat, 0)


def test_a_function_by_descriptor(device: Any) -> None:
    descriptor = Metal.MTLFunctionDescriptor.functionDescriptor()
    descriptor.setName_("scaled")
    descriptor.setSpecializedName_("thrice")
    descriptor.setConstantValues_(values(scale=3, twice=False, has_extra=False))
    function, error = library(device).newFunctionWithDescriptor_error_(descriptor, None)
    assert error is None
    assert function.name() == "thrice"


def test_reflection_and_limits(device: Any) -> None:
    function = library(device).newFunctionWithName_("shared_sum")
    make = device.newComputePipelineStateWithFunction_options_reflection_error_
    state, reflection, error = make(function, Metal.MTLPipelineOptionBindingInfo, None, None)
    assert error is None
    bindings = {(b.name(), b.index(), b.type(), b.access()) for b in reflection.bindings()}
    assert bindings == {("a", 0, 0, 0), ("out", 1, 0, 1), ("part", 0, 1, 1)}
    first = reflection.bindings()[0]
    assert (first.bufferDataSize(), first.bufferAlignment(), first.bufferDataType()) == (4, 4, Metal.MTLDataTypeUInt)
    assert state.staticThreadgroupMemoryLength() == 16
    assert make(function, 0, None, None)[1] is None
    assert make(function, 0, None, Metal.NULL)[2] is Metal.NULL
    assert pipeline("narrow").maxTotalThreadsPerThreadgroup() == 64
    assert pipeline("add").maxTotalThreadsPerThreadgroup() == 1024


def test_descriptors_narrow_pipelines(device: Any) -> None:
    descriptor = Metal.MTLComputePipelineDescriptor.alloc().init()
    make = device.newComputePipelineStateWithDescriptor_options_reflection_error_
    assert make(descriptor, 0, None, None)[0] is None
    descriptor.setComputeFunction_(library(device).newFunctionWithName_("add"))
    descriptor.setMaxTotalThreadsPerThreadgroup_(128)
    descriptor.setLabel_("mine")
    descriptor.buffers().objectAtIndexedSubscript_(0).setMutability_(Metal.MTLMutabilityImmutable)
    state, _, error = make(descriptor, 0, None, None)
    assert error is None
    assert (state.maxTotalThreadsPerThreadgroup(), state.label()) == (128, "mine")
    descriptor.setMaxTotalThreadsPerThreadgroup_(2048)
    assert make(descriptor, 0, None, None)[2] is not None


def test_too_much_threadgroup_memory_is_an_error(device: Any) -> None:
    function = library(device).newFunctionWithName_("large")
    state, error = device.newComputePipelineStateWithFunction_error_(function, None)
    assert state is None
    text = "Threadgroup memory size (36864) exceeds the maximum threadgroup memory allowed (32768)"
    assert error.localizedDescription() == text


def test_binary_archives(device: Any, tmp_path: Path) -> None:
    place = Metal.NSURL.fileURLWithPath_(str(tmp_path / "archive"))
    empty = Metal.MTLBinaryArchiveDescriptor.alloc().init()
    archive, error = device.newBinaryArchiveWithDescriptor_error_(empty, None)
    descriptor = Metal.MTLComputePipelineDescriptor.alloc().init()
    descriptor.setComputeFunction_(library(device).newFunctionWithName_("add"))
    descriptor.setBinaryArchives_([archive])
    make = device.newComputePipelineStateWithDescriptor_options_reflection_error_
    strict = Metal.MTLPipelineOptionFailOnBinaryArchiveMiss
    assert make(descriptor, strict, None, None)[0] is None
    assert archive.addComputePipelineFunctionsWithDescriptor_error_(descriptor, None) == (True, None)
    assert make(descriptor, strict, None, None)[0] is not None
    assert archive.serializeToURL_error_(place, None) == (True, None)
    empty.setUrl_(place)
    again, error = device.newBinaryArchiveWithDescriptor_error_(empty, None)
    assert error is None
    descriptor.setBinaryArchives_([again])
    assert make(descriptor, strict, None, None)[0] is not None
    empty.setUrl_(Metal.NSURL.fileURLWithPath_(str(tmp_path / "none")))
    assert device.newBinaryArchiveWithDescriptor_error_(empty, None)[1].code() == Metal.MTLBinaryArchiveErrorInvalidFile
