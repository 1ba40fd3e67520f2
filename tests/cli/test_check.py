"""`mlx-native check` on the files of a project that is not Python's: headers, folders, shaders, and mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlx_native_py import settings
from mlx_native_py.cli import main as cli

pytestmark = pytest.mark.soft
Captured = pytest.CaptureFixture[str]

KERNELS = """#include "inner/store.h"
struct Params { uint n; float3 scale; };
constant bool flag [[function_constant(0)]];

kernel void put(device float *x, constant Params &p, uint i [[thread_position_in_grid]]) {
  if (i < p.n) x[i] = p.scale.y;
}
kernel void beyond(device float *x, uint i [[thread_position_in_grid]]) { store(x, i); }
kernel void flagged(device float *x, uint i [[thread_position_in_grid]]) { if (flag) x[i] = 1; }
kernel void shared(device float *x, threadgroup float *t [[threadgroup(0)]], uint i [[thread_position_in_grid]]) {
  t[i] = x[i];
  x[i] = t[i];
}
template <typename T> kernel void filled(device T *x, constant T &a, uint i [[thread_position_in_grid]]) { x[i] = a; }
template [[host_name("filled_half")]] kernel void filled<half>(device half *, constant half &, uint);
kernel void image(texture2d<float, access::write> t, uint2 at [[thread_position_in_grid]]) { t.write(1, at); }
"""
STORE = "// stores\n\ninline void store(device float *x, uint i) {\n\tx[i + 1] = 1;\n}\n"
DRAWING = "vertex float4 v(uint i [[vertex_id]]) { return 0; }\nfragment float4 f() { return 1; }\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "Sources" / "App"
    (folder / "inner").mkdir(parents=True)
    (folder / "k.metal").write_text("#include <metal_stdlib>\nusing namespace metal;\n" + KERNELS)
    (folder / "inner" / "store.h").write_text(STORE)
    (folder / "draw.metal").write_text(DRAWING)
    monkeypatch.chdir(tmp_path)
    return folder


FILE = "Sources/App/k.metal"


def checked(capsys: Captured, *arguments: str) -> tuple[int, str, str]:
    status = cli.main(["check", *arguments])
    told = capsys.readouterr()
    return status, told.out, told.err


def test_a_finding_in_a_header_has_its_line_and_an_annotation(project: Path, capsys: Captured) -> None:
    status, out, _ = checked(capsys, FILE, "--kernel", "beyond", "--arg", "x=zeros:64", "--github")
    assert status == 1
    assert "\nSources/App/inner/store.h:4:11\n\tx[i + 1] = 1;\n\t         ^\n" in out
    note = next(line for line in out.splitlines() if line.startswith("::error "))
    assert note.startswith(
        "::error file=Sources/App/inner/store.h,line=4,col=11,title=OutOfBounds::Sources/App/k.metal: "
    )
    assert "%0ASources/App/inner/store.h:4:11%0A" in note


def test_a_finding_in_a_header_of_another_folder_has_its_path(project: Path, capsys: Captured) -> None:
    (project / "inner" / "store.h").rename(Path("Sources") / "a, b.h")
    (project / "k.metal").write_text('#include "a, b.h"\nkernel void k(device float *x) { store(x, 63); }\n')
    status, out, _ = checked(capsys, FILE, "--arg", "x=zeros:64", "--threads", "1", "-I", "Sources", "--github")
    assert status == 1 and "\nSources/a, b.h:4:11\n\tx[i + 1] = 1;\n" in out
    assert "::error file=Sources/a%2C b.h,line=4,col=11,title=OutOfBounds::" in out


def test_a_header_that_may_not_be_read_has_its_place(project: Path, capsys: Captured) -> None:
    (project / "k.metal").write_text('\n#include "../far.h"\nkernel void k(device float *x) {}\n')
    Path("Sources/far.h").write_text("")
    status, out, _ = checked(capsys, FILE, "--github")
    assert status == 1 and "::error file=Sources/App/k.metal,line=2,col=10,title=InvalidArgument::" in out


def test_a_compile_error_behind_an_include_has_its_column(project: Path, capsys: Captured) -> None:
    (project / "k.metal").write_text('#include "inner/store.h"\nkernel void k(device float *x) { x[0] = oops; }\n')
    status, out, _ = checked(capsys, FILE, "--github")
    assert status == 1
    assert "failed: Sources/App/k.metal:2:41: error: use of undeclared identifier 'oops'\nkernel void k(device" in out
    assert "::error file=Sources/App/k.metal,line=2,col=41,title=ShaderCompilationError::" in out


def test_a_file_for_drawing_alone_is_not_checked(project: Path, capsys: Captured) -> None:
    status, out, _ = checked(capsys, FILE, "Sources/App/draw.metal")
    assert status == 0 and "not checked  Sources/App/draw.metal: there is no kernel in it" in out
    assert checked(capsys, "Sources/App/draw.metal")[0] == 1, "nothing at all was checked"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--kernel", "put", "--arg", "x=zeros:8"], """--arg p='{"n":1,"scale":[1,1,1]}'"""),
        (["--kernel", "put", "--arg", "x=zeros:8", "--arg", 'p={"n":9'], "a struct is a JSON object of its members"),
        (["--kernel", "put", "--arg", "x=zeros:8", "--arg", 'p={"m":9}'], "struct Params has n, scale; what was given"),
        (["--kernel", "flagged", "--arg", "x=zeros:8"], "'flag' (index 0); give them as --constant NAME=VALUE"),
        (["--kernel", "shared", "--arg", "x=zeros:8"], "threadgroup argument 't' (slot 0); --shared gives 0 lengths"),
        (["--kernel", "shared", "--arg", "x=2"], "give --threads or --threadgroups, and"),
        (["--kernel", "beyond", "--arg", "x=zeros:8", "--threads", "1x1x1x1"], "--threads (1, 1, 1, 1), expected one"),
        (["--kernel", "beyond", "--arg", "x=zeros:8", "--arg", "x=zeros:9"], "--arg x=... is given twice"),
    ],
)
def test_mistakes_in_a_launch_are_told_in_words_of_the_command_line(
    project: Path, capsys: Captured, arguments: list[str], told: str
) -> None:
    status, out, err = checked(capsys, FILE, *arguments)
    assert (status, out) == (1, "") and told in err, err
    assert "Traceback" not in err


def test_a_struct_by_its_members(project: Path, capsys: Captured) -> None:
    arguments = [FILE, "--kernel", "put", "--arg", "x=zeros:8", "--arg"]
    assert checked(capsys, *arguments, 'p={"n":8,"scale":[1,2,3]}')[0] == 0
    assert "OutOfBounds" in checked(capsys, *arguments, 'p={"n":9,"scale":[1,2,3]}', "--threads", "9")[1]


def test_checked_mode_is_chosen_although_settings_isolate(project: Path, capsys: Captured) -> None:
    with settings.override(soft_isolated=True):
        assert (
            checked(capsys, FILE, "--kernel", "put", "--arg", "x=zeros:8", "--arg", 'p={"n":8,"scale":[1,2,3]}')[0] == 0
        )


def test_an_instance_of_a_template_counts_threads_as_the_template_does(project: Path, capsys: Captured) -> None:
    arguments = ["--kernel", "filled_half", "--arg", "x=zeros:64", "--arg", "a=2"]
    assert checked(capsys, FILE, *arguments) == (0, f"ok           {FILE}: filled_half: {NO_FAULT}", "")


NO_FAULT = "no fault, with every load and store checked\n"


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("latin.metal", b"// caf\xe9\nkernel void k(device float *x) {}", "latin.metal is not UTF-8: byte 6 is 0xe9"),
        ("empty.metal", b" \n", "empty.metal is empty; expected MSL source"),
        ("missing.metal", None, "there is no file missing.metal"),
        ("shared.h", b"int x;", "shared.h is no Python program; files of kernels end in .metal"),
        ("Sources", None, "Sources is a folder; give its files, such as Sources/*.metal"),
        ("nothing.py", None, "there is no file nothing.py"),
    ],
)
def test_files_that_cannot_be_checked(
    project: Path, capsys: Captured, name: str, content: bytes | None, told: str
) -> None:
    if content is not None:
        Path(name).write_bytes(content)
    status, out, err = checked(capsys, name)
    assert status == 1 and told in out + err


def test_a_profile_of_a_file_of_kernels_says_what_to_do(project: Path, capsys: Captured) -> None:
    assert cli.main(["profile", FILE]) == 1
    assert f"{FILE} is no Python program; files of kernels end in .metal: see run" in capsys.readouterr().err


def test_what_is_no_profile_is_told(project: Path, capsys: Captured) -> None:
    Path("a.json").write_text("{}")
    assert cli.main(["compare", "a.json", "a.json"]) == 1
    assert "a.json is not a profile written by p.save(): it has no 'format'" in capsys.readouterr().err


def test_folders_of_headers_that_do_not_exist(project: Path, capsys: Captured) -> None:
    status, out, _ = checked(capsys, FILE, "-I", "nowhere")
    assert status == 1 and "there is no folder nowhere, which --include names" in out


TEXTURES = """#include <metal_stdlib>
using namespace metal;
kernel void blur(texture2d<float, access::sample> from, texture2d<float, access::write> to, sampler s,
                 device uint *seen, constant float &by, uint2 at [[thread_position_in_grid]]) {
  to.write(by * from.sample(s, (float2(at) + 0.5f) / float2(to.get_width(), to.get_height())), at);
  seen[at.y * to.get_width() + at.x] = 1;
}
kernel void count(texture2d<uint, access::read> from, device atomic_uint *sum, uint2 at [[thread_position_in_grid]]) {
  atomic_fetch_add_explicit(sum, from.read(at).x, memory_order_relaxed);
}
"""
BLUR = ["--kernel", "blur", "--arg", "seen=zeros:32", "--arg", "by=2"]


def test_textures(project: Path, capsys: Captured) -> None:
    (project / "k.metal").write_text(TEXTURES)
    assert checked(capsys, FILE, *BLUR, "--arg", "from=random:4x8", "--arg", "to=out:4x8") == (
        0,
        f"ok           {FILE}: blur: {NO_FAULT}",
        "",
    )
    status, out, _ = checked(capsys, FILE, *BLUR, "--arg", "from=random:4x8", "--arg", "to=out:5x8")
    assert status == 1 and "outside of buffer 'seen'" in out
    status, out, _ = checked(capsys, FILE, *BLUR, "--arg", "from=out:4x8", "--arg", "to=out:4x8")
    assert status == 1 and "UninitialisedRead" in out


def test_results_of_kernels_on_textures(project: Path, capsys: Captured) -> None:
    (project / "k.metal").write_text(TEXTURES)
    assert cli.main(["run", FILE, *BLUR, "--arg", "from=ones:4x8x1:u8", "--arg", "to=out:4x8x1:f16"]) == 0
    assert "to (float16[4, 8, 1])\n[[[0.00784]" in capsys.readouterr().out
    assert cli.main(["run", FILE, "--kernel", "count", "--arg", "from=ones:4x8", "--arg", "sum=zeros:1:u32"]) == 0
    assert "sum (uint32[1])\n[32]\n" in capsys.readouterr().out


def test_launches_with_textures_are_not_counted(project: Path, capsys: Captured) -> None:
    (project / "k.metal").write_text(TEXTURES)
    given = ["--kernel", "count", "--arg", "from=ones:4x8", "--arg", "sum=zeros:1:u32"]
    assert cli.main(["inspect", FILE, *given]) == 0
    assert "could not be counted: launches with textures are not counted" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], "--arg from=random:64x64 --arg to=out:64x64"),
        (["from=ones:4", "to=out:4x8"], "an image is (height, width)"),
        (["from=ones:4x8:u32", "to=out:4x8"], "holds float; kernels see uint"),
        (["from=3", "to=out:4x8"], "expected a shape such as"),
        (["from=dance:4x8", "to=out:4x8"], "'dance' is not a kind of value"),
    ],
)
def test_textures_that_are_none(project: Path, capsys: Captured, given: list[str], told: str) -> None:
    (project / "k.metal").write_text(TEXTURES)
    status, out, err = checked(capsys, FILE, *BLUR, *(word for each in given for word in ("--arg", each)))
    assert (status, out) == (1, "") and told in err, err


def test_a_byte_order_mark_is_no_source(project: Path, capsys: Captured) -> None:
    Path("bom.metal").write_bytes(b"\xef\xbb\xbfkernel void k(device float *x) { x[0] = 1; }\r\n")
    assert checked(capsys, "bom.metal")[0] == 0


def test_settings_of_the_caller_stay_as_they_were(project: Path, capsys: Captured) -> None:
    Path("program.py").write_text("from mlx_native_py import settings\nprint(settings.current().soft_checked)\n")
    before = settings.current()
    status, out, _ = checked(capsys, "program.py")
    assert (status, out.splitlines()[0], settings.current()) == (0, "True", before)
