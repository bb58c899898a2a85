/* Which instructions this processor has: a module of its own, compiled without any of them. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static PyObject* features(PyObject* self, PyObject* none) {
    (void)self, (void)none;
    __builtin_cpu_init();
    const int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const int avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                       __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                       __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16");
    return Py_BuildValue("{s:O,s:O}", "avx2", avx2 ? Py_True : Py_False, "avx512", avx512 ? Py_True : Py_False);
}

static PyMethodDef methods[] = {
    {"features", features, METH_NOARGS, "Whether the engines for AVX2 and for AVX-512 can run here."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_processor", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__processor(void) { return PyModule_Create(&module); }
