// Kernels that are compiled while the program runs: nvrtc.h, and the modules of cuda.h. Under `tilewright run`, Python
// does both; a program of its own calls `tilewright c++ -module`, and loads the shared object that this makes.
#include "runtime.h"
#include "cuda.h"
#include "nvrtc.h"
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

struct _nvrtcProgram {
    char *text, *name;
    tilewright::list<char*> headers, expressions;  // headers: a name and a text in turn; Python reads all until here
    char *log, *image;
    size_t image_size;
    bool compiled;
};
struct CUmod_st {
    char* image;
    size_t size;
    void* library;  // of a program of its own
};
// How the compiler is called, with a null behind it. The program has it if it compiles kernels.
extern "C" __attribute__((weak)) char const* const __tw_compiler_command[];

extern "C" void __tw_register_tile_code(void const* table, unsigned count);
extern "C" void __tw_compiled(nvrtcProgram made, char const* log, char const* image, size_t size);

namespace tilewright {

constexpr char magic[8] = {'\x7f', 'T', 'i', 'l', 'e', 'I', 'R', '\n'};  // an image begins with it, and its size
static int (*compiler)(nvrtcProgram program, char const* const* options, int count);
// The number of a tile kernel, or in `function` a SIMT kernel.
static int (*finder)(char const* image, size_t size, char const* name, part* parts, unsigned* count, void** function);

template <typename T>
static T* made_of(T const& value) {
    return (T*)memcpy(malloc(sizeof value), &value, sizeof value);
}
static char* copied(char const* from, size_t size) {
    char* made = (char*)malloc(size + 1);
    if (!made) abort();
    memcpy(made, from, size);
    made[size] = 0;
    return made;
}

static void write_file(char const* path, char const* text) {
    FILE* file = fopen(path, "wb");
    if (!file) return;
    fwrite(text, 1, strlen(text), file);
    fclose(file);
}
// What is in a file, with a null behind it; null where there is none.
static char* read_file(char const* path, size_t* size) {
    FILE* file = fopen(path, "rb");
    if (!file) return nullptr;
    fseek(file, 0, SEEK_END);
    *size = size_t(ftell(file));
    rewind(file);
    char* made = (char*)malloc(*size + 1);
    if (!made) abort();
    *size = fread(made, 1, *size, file);
    made[*size] = 0;
    fclose(file);
    return made;
}

static nvrtcResult compile_outside(nvrtcProgram program, int count, char const* const* options) {
    char const* temporary = getenv("TMPDIR");
    char folder[PATH_MAX], text[PATH_MAX + 8], image[PATH_MAX + 8], log[PATH_MAX + 8];
    snprintf(folder, sizeof folder, "%s/tilewright-XXXXXX", temporary && *temporary ? temporary : "/tmp");
    if (!mkdtemp(folder)) {
        say("kernels cannot be compiled, as there can be no folder %s", folder);
        return NVRTC_ERROR_COMPILATION;
    }
    snprintf(text, sizeof text, "%s/text", folder);
    snprintf(image, sizeof image, "%s/image", folder);
    snprintf(log, sizeof log, "%s/log", folder);
    write_file(text, program->text);
    list<char const*> words;
    for (char const* const* word = __tw_compiler_command; *word; ++word) words.add(*word);
    char const* const given[] = {"-module", text, program->name, image, log};
    for (char const* word : given) words.add(word);
    list<char*> files;
    for (size_t i = 0; i < program->headers.count; ++i) {
        char file[PATH_MAX + 32];
        snprintf(file, sizeof file, "%s/%zu", folder, i);
        write_file(file, program->headers[i]);
        words.add(files.add(copied(file, strlen(file))));
    }
    words.add("--");
    for (char* expression : program->expressions) words.add(expression);
    words.add("--");
    for (int i = 0; i < count; ++i) words.add(options[i]);
    words.add(nullptr);
    fflush(nullptr);
    pid_t child = fork();
    if (child == 0) {
        execv(words[0], (char**)words.items);
        _exit(127);
    }
    int status = 127 << 8;
    if (child > 0) waitpid(child, &status, 0);
    size_t size = 0, length = 0;
    char *made = read_file(image, &size), *said = read_file(log, &length);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 127;
    if (code == 127) say("kernels cannot be compiled, as %s cannot be run", words[0]);
    __tw_compiled(program, said ? said : "", code ? nullptr : made, size);
    free(made);
    free(said);
    words.clear();
    for (char* file : files) {
        unlink(file);
        free(file);
    }
    files.clear();
    unlink(text);
    unlink(image);
    unlink(log);
    rmdir(folder);
    return code == 0 ? NVRTC_SUCCESS : code == NVRTC_ERROR_INVALID_OPTION ? NVRTC_ERROR_INVALID_OPTION : NVRTC_ERROR_COMPILATION;
}

// What a module made for programs of their own has.
struct module_kernel {
    char const *name, *key;
    part const* parts;
    unsigned parameters;
    void const* simt;  // its address, of one that the module has registered
};
struct loaded_module {
    size_t size;
    unsigned long long hash;
    void* library;
};
// The library of an image; of images that are the same, the same. Code stays: kernels may run.
static void* library_of(char const* image, size_t size) {
    static list<loaded_module> known;
    unsigned long long hash = 1469598103934665603u;
    for (size_t i = 0; i < size; ++i) hash = (hash ^ (unsigned char)image[i]) * 1099511628211u;
    locked here;
    for (loaded_module const& each : known)
        if (each.size == size && each.hash == hash) return each.library;
    // They stay open: the loader takes a name that it knows for what it has loaded, and faults are looked up in them.
    int file = memfd_create("tilewright-module", 0);
    rlimit open_files;
    if (file < 0 && errno == EMFILE && getrlimit(RLIMIT_NOFILE, &open_files) == 0) {
        open_files.rlim_cur = open_files.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &open_files) == 0) file = memfd_create("tilewright-module", 0);
    }
    if (file < 0 || write(file, image, size) != ssize_t(size)) return nullptr;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return close(file), nullptr;
    __tw_register_tile_code(*(void const**)dlsym(library, "__tw_module_codes"), *(unsigned*)dlsym(library, "__tw_module_count"));
    known.add({size, hash, library});
    return library;
}

// Whether names are the same but for spaces.
static bool is_same(char const* x, char const* y) {
    for (;; ++x, ++y) {
        while (*x == ' ') ++x;
        while (*y == ' ') ++y;
        if (*x != *y || !*x) return *x == *y;
    }
}
static list<kernel*> loaded;  // those that programs asked for
bool is_loaded(void const* handle) { return loaded.holds((kernel*)handle); }

}  // namespace tilewright

using namespace tilewright;

extern "C" {
void __tw_set_compiler(decltype(compiler) given, decltype(finder) found) {
    compiler = given;
    finder = found;
}
// What a compilation gives: what it says, and an image where it succeeded.
void __tw_compiled(nvrtcProgram made, char const* log, char const* image, size_t size) {
    free(made->log);
    free(made->image);
    made->log = copied(log, strlen(log));
    made->image = nullptr;
    made->image_size = 0;
    if (!image) return;
    made->image_size = sizeof magic + sizeof size + size;
    made->image = (char*)malloc(made->image_size);
    if (!made->image) abort();
    memcpy(made->image, magic, sizeof magic);
    memcpy(made->image + sizeof magic, &size, sizeof size);
    memcpy(made->image + sizeof magic + sizeof size, image, size);
}

nvrtcResult nvrtcVersion(int* major, int* minor) {
    if (!major || !minor) return NVRTC_ERROR_INVALID_INPUT;
    *major = CUDART_VERSION / 1000;
    *minor = CUDART_VERSION % 1000 / 10;
    return NVRTC_SUCCESS;
}
char const* nvrtcGetErrorString(nvrtcResult result) {
    switch (result) {
#define X(name, number) \
    case name: return #name;
        TW_NVRTC_RESULTS(X)
#undef X
    }
    return "NVRTC_ERROR unknown";
}
// Those that NVRTC of CUDA 13 compiles for; here they are all the same.
static int const architectures[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};
nvrtcResult nvrtcGetNumSupportedArchs(int* count) {
    if (!count) return NVRTC_ERROR_INVALID_INPUT;
    *count = sizeof architectures / sizeof *architectures;
    return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetSupportedArchs(int* archs) {
    if (!archs) return NVRTC_ERROR_INVALID_INPUT;
    memcpy(archs, architectures, sizeof architectures);
    return NVRTC_SUCCESS;
}
nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, char const* text, char const* name, int count,
                               char const* const* headers, char const* const* names) {
    if (!program || !text || count < 0 || (count > 0 && !(headers && names))) return NVRTC_ERROR_INVALID_INPUT;
    if (!name || !*name) name = "default_program";
    *program = made_of(_nvrtcProgram{copied(text, strlen(text)), copied(name, strlen(name)), {}, {}, copied("", 0), nullptr, 0, false});
    for (int i = 0; i < count; ++i) {
        (*program)->headers.add(copied(names[i], strlen(names[i])));
        (*program)->headers.add(copied(headers[i], strlen(headers[i])));
    }
    return NVRTC_SUCCESS;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
    if (!program || !*program) return NVRTC_ERROR_INVALID_PROGRAM;
    free((*program)->text);
    free((*program)->name);
    free((*program)->log);
    free((*program)->image);
    for (char* header : (*program)->headers) free(header);
    for (char* expression : (*program)->expressions) free(expression);
    (*program)->headers.clear();
    (*program)->expressions.clear();
    free(*program);
    *program = nullptr;
    return NVRTC_SUCCESS;
}
nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, char const* const* options) {
    if (!program) return NVRTC_ERROR_INVALID_PROGRAM;
    if (count < 0 || (count > 0 && !options)) return NVRTC_ERROR_INVALID_INPUT;
    program->compiled = true;
    if (!compiler && __tw_compiler_command) return compile_outside(program, count, options);
    if (!compiler) {
        __tw_compiled(program, "a program without Python cannot compile kernels: run it by tilewright run", nullptr, 0);
        return NVRTC_ERROR_COMPILATION;
    }
    return nvrtcResult(compiler(program, options, count));
}
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t* size) {
    if (!program || !size) return program ? NVRTC_ERROR_INVALID_INPUT : NVRTC_ERROR_INVALID_PROGRAM;
    *size = strlen(program->log) + 1;
    return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log) {
    if (!program || !log) return program ? NVRTC_ERROR_INVALID_INPUT : NVRTC_ERROR_INVALID_PROGRAM;
    strcpy(log, program->log);
    return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetTileIRSize(nvrtcProgram program, size_t* size) {
    if (!program || !size || !program->image) return program && size ? NVRTC_ERROR_INVALID_PROGRAM : NVRTC_ERROR_INVALID_INPUT;
    *size = program->image_size;
    return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetTileIR(nvrtcProgram program, char* image) {
    if (!program || !image || !program->image) return program && image ? NVRTC_ERROR_INVALID_PROGRAM : NVRTC_ERROR_INVALID_INPUT;
    memcpy(image, program->image, program->image_size);
    return NVRTC_SUCCESS;
}
nvrtcResult nvrtcAddNameExpression(nvrtcProgram program, char const* expression) {
    if (!program || !expression) return program ? NVRTC_ERROR_INVALID_INPUT : NVRTC_ERROR_INVALID_PROGRAM;
    if (program->compiled) return NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION;
    program->expressions.add(copied(expression, strlen(expression)));
    return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetLoweredName(nvrtcProgram program, char const* expression, char const** name) {
    if (!program || !expression || !name) return program ? NVRTC_ERROR_INVALID_INPUT : NVRTC_ERROR_INVALID_PROGRAM;
    if (!program->image) return NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION;
    for (char const* each : program->expressions)
        if (strcmp(each, expression) == 0) {
            *name = each;
            return NVRTC_SUCCESS;
        }
    return NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
}
// Whether a program has SIMT kernels, whose image programs ask for under other names.
static bool has_simt_kernels(nvrtcProgram program) {
    bool found = program && strstr(program->text, "__global__");
    if (program)
        for (char const* each : program->headers) found |= strstr(each, "__global__") != nullptr;
    return found;
}
#define X(kind)                                                                                                          \
    nvrtcResult nvrtcGet##kind##Size(nvrtcProgram program, size_t* size) {                                               \
        if (has_simt_kernels(program)) return nvrtcGetTileIRSize(program, size);                                         \
        say("nvrtcGet" #kind "Size() has nothing to give: kernels are compiled for this processor; take what nvrtcGetTileIR() gives"); \
        return NVRTC_ERROR_INVALID_PROGRAM;                                                                              \
    }                                                                                                                    \
    nvrtcResult nvrtcGet##kind(nvrtcProgram program, char* code) {                                                       \
        return has_simt_kernels(program) ? nvrtcGetTileIR(program, code) : NVRTC_ERROR_INVALID_PROGRAM;                  \
    }
TW_NVRTC_SIMT_CODE(X)
#undef X
#define X(kind)                                                                                                          \
    nvrtcResult nvrtcGet##kind##Size(nvrtcProgram, size_t*) {                                                            \
        say("nvrtcGet" #kind "Size() has nothing to give: kernels are compiled for this processor; take what nvrtcGetTileIR() gives"); \
        return NVRTC_ERROR_INVALID_PROGRAM;                                                                              \
    }                                                                                                                    \
    nvrtcResult nvrtcGet##kind(nvrtcProgram, char*) { return NVRTC_ERROR_INVALID_PROGRAM; }
TW_NVRTC_CODE(X)
#undef X

CUresult cuModuleLoadData(CUmodule* module, void const* image) {
    if (!module || !image) return CUDA_ERROR_INVALID_VALUE;
    if (memcmp(image, magic, sizeof magic) != 0) {
        say("cuModuleLoadData() takes what nvrtcGetTileIR() gave here, not code for GPUs");
        return CUDA_ERROR_INVALID_IMAGE;
    }
    size_t size;
    memcpy(&size, (char const*)image + sizeof magic, sizeof size);
    char const* content = (char const*)image + sizeof magic + sizeof size;
    void* library = finder ? nullptr : library_of(content, size);
    if (!finder && !library) return CUDA_ERROR_INVALID_IMAGE;
    *module = made_of(CUmod_st{finder ? copied(content, size) : nullptr, size, library});
    return CUDA_SUCCESS;
}
CUresult cuModuleLoad(CUmodule* module, char const* path) {
    size_t size;
    char* image = path ? read_file(path, &size) : nullptr;
    if (!image) return path ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
    CUresult error = size < sizeof magic ? CUDA_ERROR_INVALID_IMAGE : cuModuleLoadData(module, image);
    free(image);
    return error;
}
// Functions stay: Python holds their code.
CUresult cuModuleUnload(CUmodule module) {
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    free(module->image);
    free(module);
    return CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, char const* name) {
    if (!function || !module || !name) return module ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    part parts[most_parameters];
    unsigned count = 0;
    char own[32];
    char const* key = own;
    if (finder) {
        void* simt = nullptr;
        int number = finder(module->image, module->size, name, parts, &count, &simt);
        if (simt) *function = (CUfunction)find_kernel(simt);
        if (simt) return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
        if (number < 0) return CUDA_ERROR_NOT_FOUND;
        snprintf(own, sizeof own, "module %d", number);
    } else {
        auto* found = (module_kernel const*)dlsym(module->library, "__tw_module_kernels");
        while (found->name && !is_same(found->name, name)) ++found;
        if (!found->name) return CUDA_ERROR_NOT_FOUND;
        if (found->simt) *function = (CUfunction)find_kernel(found->simt);
        if (found->simt) return CUDA_SUCCESS;
        key = found->key;
        count = found->parameters;
        memcpy(parts, found->parts, count * sizeof *parts);
    }
    locked here;
    for (kernel* each : loaded)
        if (strcmp(each->key, key) == 0) {
            *function = (CUfunction)each;
            return CUDA_SUCCESS;
        }
    char const* called = copied(name, strlen(name));
    auto* kept = (part*)calloc(count + 1, sizeof(part));
    memcpy(kept, parts, count * sizeof *parts);
    loaded.add(made_of(kernel{nullptr, copied(key, strlen(key)), called, called, kept, count, 0, max_threads, 0, 0, nullptr}));
    *function = (CUfunction)loaded[loaded.count - 1];
    return CUDA_SUCCESS;
}
CUresult cuModuleGetGlobal(CUdeviceptr* address, size_t* bytes, CUmodule module, char const* name) {
    if (!module || !name) return module ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    part parts[most_parameters];
    unsigned count;
    void* found = nullptr;
    if (finder) finder(module->image, module->size, name, parts, &count, &found);
    else found = dlsym(module->library, name);
    Dl_info about;
    ElfW(Sym)* symbol = nullptr;
    if (!found || !dladdr1(found, &about, (void**)&symbol, RTLD_DL_SYMENT) || !symbol || ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT) return CUDA_ERROR_NOT_FOUND;
    if (address) *address = CUdeviceptr(__tw_symbol(found, symbol->st_size));
    if (bytes) *bytes = symbol->st_size;
    return CUDA_SUCCESS;
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
    if (!value || !function) return value ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? int(((kernel const*)function)->bound) : 0;
    return CUDA_SUCCESS;
}
CUresult cuFuncGetName(char const** name, CUfunction function) {
    if (!name || !function) return name ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    *name = ((kernel const*)function)->name;
    return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, CUstream stream, void** arguments, void** extra) {
    configuration how{{gx, gy, gz}, {bx, by, bz}, shared, stream};
    cudaError_t error = on(stream);
    if (error == cudaSuccess && (!function || extra)) error = function ? cudaErrorNotSupported : cudaErrorInvalidResourceHandle;
    if (error == cudaSuccess) error = check(how);
    auto const& what = *(kernel const*)function;
    void* room[most_parameters];
    if (error == cudaSuccess) arguments = parts_of(what, arguments, room);
    if (error == cudaSuccess) error = launch_in_order(what, how, arguments);
    return CUresult(report(error));
}
// Libraries are modules under another name.
cudaError_t cudaGetKernel(cudaKernel_t* kernel, void const* function) {
    auto const* found = find_kernel(function);
    if (!kernel || !found) return report(kernel ? cudaErrorInvalidDeviceFunction : cudaErrorInvalidValue);
    *kernel = (cudaKernel_t)found;
    return report(cudaSuccess);
}
cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, void const* image, cudaJitOption*, void**, unsigned int,
                                cudaLibraryOption*, void**, unsigned int) {
    return report(cudaError_t(cuModuleLoadData((CUmodule*)library, image)));
}
cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* library, char const* path, cudaJitOption*, void**, unsigned int,
                                    cudaLibraryOption*, void**, unsigned int) {
    return report(cudaError_t(cuModuleLoad((CUmodule*)library, path)));
}
cudaError_t cudaLibraryUnload(cudaLibrary_t library) { return report(cudaError_t(cuModuleUnload((CUmodule)library))); }
cudaError_t cudaLibraryGetGlobal(void** address, size_t* bytes, cudaLibrary_t library, char const* name) {
    return report(cudaError_t(cuModuleGetGlobal((CUdeviceptr*)address, bytes, (CUmodule)library, name)));
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, char const* name) {
    return report(cudaError_t(cuModuleGetFunction((CUfunction*)kernel, (CUmodule)library, name)));
}
}
