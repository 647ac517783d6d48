// Compiling Tile C++ while a program runs, which `tilewright run` does. What nvrtcGetTileIR gives is an image for
// cuModuleLoadData of this runtime. There is no PTX.
#pragma once
#pragma clang system_header
#include <stddef.h>

typedef enum {
    NVRTC_SUCCESS = 0,
    NVRTC_ERROR_OUT_OF_MEMORY = 1,
    NVRTC_ERROR_PROGRAM_CREATION_FAILURE = 2,
    NVRTC_ERROR_INVALID_INPUT = 3,
    NVRTC_ERROR_INVALID_PROGRAM = 4,
    NVRTC_ERROR_INVALID_OPTION = 5,
    NVRTC_ERROR_COMPILATION = 6,
    NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID = 10
} nvrtcResult;
typedef struct _nvrtcProgram* nvrtcProgram;

extern "C" {
nvrtcResult nvrtcVersion(int* major, int* minor);
char const* nvrtcGetErrorString(nvrtcResult result);
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
}
