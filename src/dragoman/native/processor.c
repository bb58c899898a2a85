/* Detection of the processor's instruction sets, in an extension module that is compiled without any of them. It
   executes CPUID instead of calling __builtin_cpu_supports, which always returns 0 when compiled with zig. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <cpuid.h>

/* Return which vector registers the operating system saves for each thread: bits 1 and 2 for AVX, also bits 5 to 7 for
   AVX-512. */
static unsigned saved_registers(void) {
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static int all(unsigned value, unsigned bits) { return (value & bits) == bits; }

static PyObject* features(PyObject* self, PyObject* none) {
    (void)self, (void)none;
    unsigned a = 0, b = 0, c = 0, d = 0;
    const int avx = __get_cpuid(1, &a, &b, &c, &d) && all(c, bit_OSXSAVE | bit_AVX | bit_FMA);
    const unsigned saved = avx ? saved_registers() : 0;
    const int extended = __get_cpuid_count(7, 0, &a, &b, &c, &d);
    const int avx2 = extended && all(saved, 0x06) && all(b, bit_AVX2);
    int avx512 = avx2 && all(saved, 0xe6) && all(b, bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ) &&
                 all(c, bit_AVX512VNNI);
    avx512 = avx512 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && all(a, bit_AVX512BF16);
    return Py_BuildValue("{s:O,s:O}", "avx2", avx2 ? Py_True : Py_False, "avx512", avx512 ? Py_True : Py_False);
}

static PyMethodDef methods[] = {
    {"features", features, METH_NOARGS,
     "Return a dict of the builds avx2 and avx512: True if this processor can run the build."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_processor", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__processor(void) { return PyModule_Create(&module); }
