// Compiling Tile C++ while a program runs, which `tilewright run` does. What nvrtcGetTileIR gives is an image for
// cuModuleLoadData of this runtime. Of SIMT kernels nvrtcGetPTX
// and nvrtcGetCUBIN give it, too. There is no code for GPUs: what asks for it says so.
#pragma once
#pragma clang system_header
#include <stddef.h>

#define TW_NVRTC_RESULTS(X)                                                                                              \
    X(NVRTC_SUCCESS, 0)                                                                                                  \
    X(NVRTC_ERROR_OUT_OF_MEMORY, 1)                                                                                      \
    X(NVRTC_ERROR_PROGRAM_CREATION_FAILURE, 2)                                                                           \
    X(NVRTC_ERROR_INVALID_INPUT, 3)                                                                                      \
    X(NVRTC_ERROR_INVALID_PROGRAM, 4)                                                                                    \
    X(NVRTC_ERROR_INVALID_OPTION, 5)                                                                                     \
    X(NVRTC_ERROR_COMPILATION, 6)                                                                                        \
    X(NVRTC_ERROR_BUILTIN_OPERATION_FAILURE, 7)                                                                          \
    X(NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION, 8)                                                              \
    X(NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION, 9)                                                                \
    X(NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID, 10)                                                                         \
    X(NVRTC_ERROR_INTERNAL_ERROR, 11)                                                                                    \
    X(NVRTC_ERROR_TIME_FILE_WRITE_FAILED, 12)                                                                            \
    X(NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED, 13)                                                                           \
    X(NVRTC_ERROR_PCH_CREATE_HEAP_EXHAUSTED, 14)                                                                         \
    X(NVRTC_ERROR_PCH_CREATE, 15)                                                                                        \
    X(NVRTC_ERROR_CANCELLED, 16)                                                                                         \
    X(NVRTC_ERROR_TIME_TRACE_FILE_WRITE_FAILED, 17)
typedef enum {
#define X(name, number) name = number,
    TW_NVRTC_RESULTS(X)
#undef X
} nvrtcResult;
typedef struct _nvrtcProgram* nvrtcProgram;

extern "C" {
nvrtcResult nvrtcVersion(int* major, int* minor);
char const* nvrtcGetErrorString(nvrtcResult result);
nvrtcResult nvrtcGetNumSupportedArchs(int* count);
nvrtcResult nvrtcGetSupportedArchs(int* archs);
nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, char const* text, char const* name, int count,
                               char const* const* headers, char const* const* names);
nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program);
nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, char const* const* options);
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t* size);
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log);
nvrtcResult nvrtcGetTileIRSize(nvrtcProgram program, size_t* size);
nvrtcResult nvrtcGetTileIR(nvrtcProgram program, char* image);
// A kernel is found in a module by the expression that names it.
nvrtcResult nvrtcAddNameExpression(nvrtcProgram program, char const* expression);
nvrtcResult nvrtcGetLoweredName(nvrtcProgram program, char const* expression, char const** name);
// Of SIMT kernels alone, and what there is not.
#define TW_NVRTC_SIMT_CODE(X) X(PTX) X(CUBIN)
#define TW_NVRTC_CODE(X) X(LTOIR) X(OptiXIR)
#define X(kind)                                                         \
    nvrtcResult nvrtcGet##kind##Size(nvrtcProgram program, size_t* size); \
    nvrtcResult nvrtcGet##kind(nvrtcProgram program, char* code);
TW_NVRTC_SIMT_CODE(X) TW_NVRTC_CODE(X)
#undef X
}
