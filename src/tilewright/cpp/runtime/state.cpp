// Errors, the lock, and the kernels of the program.
#include "runtime.h"
#include <stdarg.h>
#include <unistd.h>

namespace tilewright {

static pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
locked::locked() { pthread_mutex_lock(&mutex); }
locked::~locked() { pthread_mutex_unlock(&mutex); }
void keep_lock_through_forks() {
    pthread_atfork([] { pthread_mutex_lock(&mutex); }, [] { pthread_mutex_unlock(&mutex); },
                   [] { mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP; });
}

static cudaError_t failed = cudaSuccess;  // what broke the device
static thread_local cudaError_t last = cudaSuccess;

cudaError_t broken() { return __atomic_load_n(&failed, __ATOMIC_RELAXED); }

cudaError_t report(cudaError_t error) {
    bool sticky = error == cudaErrorIllegalAddress || error == cudaErrorAssert || error == cudaErrorMisalignedAddress ||
                  error == cudaErrorLaunchFailure;
    if (sticky) __atomic_store_n(&failed, error, __ATOMIC_RELAXED);
    if (broken() != cudaSuccess) error = broken();
    if (error != cudaSuccess) last = error;
    return error;
}

void say(char const* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fflush(stdout);
    flockfile(stderr);  // several threads may say something
    fputs("tilewright: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs("\n", stderr);
    fflush(stderr);
    funlockfile(stderr);
    va_end(arguments);
}

static list<kernel const*> kernels;
int (*at_exit)(int status) = nullptr;

kernel const* find_kernel(void const* stub) {
    locked here;
    for (kernel const* each : kernels)
        if (each->stub == stub || each == stub) return each;
    return is_loaded(stub) ? (kernel const*)stub : nullptr;
}

struct known_error {
    int code;
    char const *name, *text;
};
static known_error const errors[] = {
#define TW_ERROR(name, code, text) {code, "cuda" #name, text},
    TW_ERRORS(TW_ERROR)
#undef TW_ERROR
};
static known_error const* known(int code) {
    for (known_error const& each : errors)
        if (each.code == code) return &each;
    return nullptr;
}

}  // namespace tilewright

using namespace tilewright;

extern "C" {
// Called before main, by each file of the program.
void __tw_register_kernels(kernel const* table, unsigned count) {
    locked here;
    for (unsigned i = 0; i < count; ++i) kernels.add(table + i);
}
unsigned __tw_kernel_count() { return unsigned(kernels.count); }
kernel const* __tw_kernel(unsigned i) { return kernels[i]; }

cudaError_t cudaGetLastError() {
    refusals_are_known();
    cudaError_t found = broken() != cudaSuccess ? broken() : last;
    last = cudaSuccess;
    return found;
}
cudaError_t cudaPeekAtLastError() {
    refusals_are_known();
    return broken() != cudaSuccess ? broken() : last;
}
char const* cudaGetErrorString(cudaError_t error) {
    known_error const* found = known(error);
    return found ? found->text : "unrecognized error code";
}
char const* cudaGetErrorName(cudaError_t error) {
    known_error const* found = known(error);
    return found ? found->name : "unrecognized error code";
}
cudaError_t __tw_host_report(cudaError_t error) { return report(known(error) ? error : cudaErrorUnknown); }
cudaError_t __tw_host_unsupported(char const* name) {
    static list<char const*> said;
    locked here;
    for (char const* each : said)
        if (strcmp(each, name) == 0) return report(cudaErrorNotSupported);
    said.add(name);
    bool of_driver = strncmp(name, "cuda", 4) != 0;
    say("%s is not supported; it returns %s", name, of_driver ? "CUDA_ERROR_NOT_SUPPORTED" : "cudaErrorNotSupported");
    return report(cudaErrorNotSupported);
}

// Under `tilewright run`: constructors of global objects, which may launch kernels, and of which the loader knows nothing.
extern char const __ehdr_start __attribute__((visibility("hidden")));
void __tw_begin(int count, char** words) {
    using constructor = void (*)(int, char**, char**);
    constructor const* all = nullptr;
    size_t size = 0;
    for (ElfW(Dyn) const* each = _DYNAMIC; each->d_tag; ++each) {
        if (each->d_tag == 0x6aaa0019) all = (constructor const*)(&__ehdr_start + each->d_un.d_ptr);
        if (each->d_tag == 0x6aaa001b) size = each->d_un.d_val;
    }
    for (size_t i = 0; i < size / sizeof *all; ++i) all[i](count, words, environ);
}
// Under `tilewright run`: a program that calls exit ends the process, which has more to say then.
void __tw_set_at_exit(int (*given)(int status)) {
    at_exit = given;
    auto const leave = [](int status, void*) {
        if (!at_exit) return;
        fflush(nullptr);
        report_refusals();
        _exit(at_exit(status & 255));
    };
    if (given) on_exit(leave, nullptr);
}
extern void* __dso_handle __attribute__((visibility("hidden")));
void __cxa_finalize(void*);
// Under `tilewright run`, when main has returned: what runs at the end of a program may still launch tile kernels.
void __tw_finish() {
    __cxa_finalize(&__dso_handle);
    report_refusals();
}
cudaError_t cudaDeviceReset() {
    forget_memory();
    __atomic_store_n(&failed, cudaSuccess, __ATOMIC_RELAXED);
    last = cudaSuccess;
    return cudaSuccess;
}
}
