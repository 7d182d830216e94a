"""Identifiers of C from names of ours, which may be anything."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

_KEYWORDS = """
alignas alignof and asm auto bool break case catch char class compl complex concept const
consteval constexpr constinit continue decltype default delete do double else enum explicit export
extern false float for friend fortran goto if imaginary import inline int long module mutable
namespace new noexcept noreturn not nullptr operator or private protected public register requires
restrict return short signed sizeof static struct switch template this throw true try typedef typeid
typename typeof union unsigned using virtual void volatile wchar while xor
and_eq bitand bitor char8_t char16_t char32_t const_cast co_await co_return co_yield
dynamic_cast not_eq or_eq reinterpret_cast static_assert static_cast thread_local typeof_unqual
wchar_t xor_eq
"""
"""Of C and of C++, which includes the headers too."""

_MATHEMATICS = """
acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs fdim
floor fma fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 log1p log2 logb
lrint lround modf nan nearbyint nextafter nexttoward pow remainder remquo rint round scalbln scalbn
sin sinh sqrt tan tanh tgamma trunc
cabs cacos cacosh carg casin casinh catan catanh ccos ccosh cexp cimag clog conj cpow cproj creal
csin csinh csqrt ctan ctanh
"""
"""Each also with f and l behind it. Those of complex numbers are known to compilers anyway."""

_LIBRARY = """
INFINITY NAN HUGE_VAL HUGE_VALF HUGE_VALL NULL EOF BUFSIZ FILENAME_MAX FOPEN_MAX TMP_MAX RAND_MAX
EXIT_FAILURE EXIT_SUCCESS MB_CUR_MAX FILE float_t double_t offsetof fpclassify isfinite isinf isnan
isnormal signbit isgreater isless isunordered math_errhandling signgam gamma j0 j1 jn y0 y1 yn
clearerr fclose feof ferror fflush fgetc fgetpos fgets fopen fprintf fputc fputs fread freopen
fscanf fseek fsetpos ftell fwrite getc getchar gets perror printf putc putchar puts remove rename
rewind scanf setbuf setvbuf snprintf sprintf sscanf stderr stdin stdout tmpfile tmpnam ungetc
vfprintf vfscanf vprintf vscanf vsnprintf vsprintf vsscanf
abort abs aligned_alloc at_quick_exit atexit atof atoi atol atoll bsearch calloc div exit free
getenv labs ldiv llabs lldiv malloc mblen mbstowcs mbtowc qsort quick_exit rand realloc srand system
wcstombs wctomb linux unix
"""
"""What the headers that are included name, beside the patterns below."""

_PATTERN = re.compile(r"(str|mem|wcs|is|to)[a-z]+|\w*_t|U?INT\w*_(MAX|MIN|C)")

_OURS = """
GNUmakefile Makefile all arguments clean copy_strided count glenside_simulate glenside_simulator
glenside_simulators glenside_units i inputs main makefile operand operands parameters refuse result
room simulator simulators sizes transfer unit values workspace write
"""
"""Names in what is written beside a program, of its files and of targets of its Makefile."""

RESERVED = frozenset(
    [
        *(_KEYWORDS + _LIBRARY + _OURS).split(),
        *(name + suffix for name in _MATHEMATICS.split() for suffix in ("", "f", "l")),
    ]
)


def identifier(text: str, otherwise: str = "program") -> str:
    """What C can call something: letters, digits and underscores, a letter first, no name that
    means something already. ``otherwise`` where nothing is left."""
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or otherwise
    if not name[0].isalpha():
        name = f"n{name}"
    return f"{name}_" if name in RESERVED or _PATTERN.fullmatch(name) else name


def distinct(names: Sequence[str], taken: Collection[str] = ()) -> list[str]:
    """The names, with numbers behind those that occur again or are ``taken``."""
    used = set(taken)
    result = []
    for name in names:
        candidate, count = name, 0
        while candidate in used:
            count += 1
            candidate = f"{name}_{count}"
        used.add(candidate)
        result.append(candidate)
    return result
