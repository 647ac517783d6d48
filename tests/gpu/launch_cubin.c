/* Launches a kernel of a cubin without Python: launch_cubin FILE SYMBOL GRID THREADS SHARED N.
   Its parameters are two vectors of N floats, each with its extent and its stride; the second one is printed. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void *library;

#define CALL(name, types, ...)                                                        \
    do {                                                                              \
        int(*function) types = (int(*) types)dlsym(library, #name);                   \
        int code = function ? function(__VA_ARGS__) : -1;                             \
        if (code != 0) {                                                              \
            fprintf(stderr, "%s: error %d\n", #name, code);                           \
            return 1;                                                                 \
        }                                                                             \
    } while (0)

int main(int argc, char **argv) {
    if (argc != 7) return 2;
    unsigned grid = atoi(argv[3]), threads = atoi(argv[4]), shared = atoi(argv[5]);
    int32_t n = atoi(argv[6]), stride = 1;
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) return 3;
    int device;
    void *context, *module, *kernel;
    CALL(cuInit, (unsigned), 0);
    CALL(cuDeviceGet, (int *, int), &device, 0);
    CALL(cuDevicePrimaryCtxRetain, (void **, int), &context, device);
    CALL(cuCtxSetCurrent, (void *), context);
    CALL(cuModuleLoad, (void **, const char *), &module, argv[1]);
    CALL(cuModuleGetFunction, (void **, void *, const char *), &kernel, module, argv[2]);
    float *values = malloc(n * sizeof(float));
    for (int i = 0; i < n; i++) values[i] = (float)(i % 17);
    uint64_t x, out;
    CALL(cuMemAlloc_v2, (uint64_t *, size_t), &x, n * sizeof(float));
    CALL(cuMemAlloc_v2, (uint64_t *, size_t), &out, n * sizeof(float));
    CALL(cuMemcpyHtoD_v2, (uint64_t, const void *, size_t), x, values, n * sizeof(float));
    void *parameters[] = {&x, &n, &stride, &out, &n, &stride};
    CALL(cuLaunchKernel,
         (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **), kernel,
         grid, 1, 1, threads, 1, 1, shared, NULL, parameters, NULL);
    CALL(cuCtxSynchronize, (void));
    CALL(cuMemcpyDtoH_v2, (void *, uint64_t, size_t), values, out, n * sizeof(float));
    for (int i = 0; i < n; i++) printf("%.9g\n", values[i]);
    return 0;
}
