// Launches: the configurations of those that a thread begins, and kernels that run.
#include "runtime.h"
#include <stdarg.h>

namespace tilewright {

// Launches whose arguments are evaluated, which may launch others: how, and what is wrong with that.
struct begun {
    configuration how;
    cudaError_t refused;
};
constexpr unsigned most_begun = 16;  // those that exceptions left included
static thread_local begun launches[most_begun];
static thread_local unsigned launches_begun = 0;
// Why Python refuses a launch, and which category of the sanitizer that is.
static thread_local char refusal[256], refusal_category[32];

// Says why a launch does not take place; under the sanitizer, with the line of the program, and without a category if the
// program does not ask for the error.
__attribute__((format(printf, 2, 3))) static void refuse(char const* category, char const* format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (!checking()) say("%s", text);
    else if (category) note_in_host_code(category, text);
    else note_refusal(text);
}

// How tile kernels run: by code that was compiled with them, or else, under `tilewright run`, by Python.
union word {
    long long integer;
    double number;
    void const* address;
};
struct tile_code {
    char const* key;
    int (*run[2])(unsigned x, unsigned y, unsigned z, word const* arguments);  // the second takes null pointers
    char const* (*message)();
    unsigned char const* codes;  // of the types of the parameters, as the headers number them
};
static list<tile_code const*> compiled;
static int (*launcher)(char const* key, unsigned const* grid, void** slots) = nullptr;
// SIMT kernels on a GPU. `shape` is the grid and the block, `shared` the bytes that the launch asks for.
static int (*simt_launcher)(char const* key, unsigned const* shape, size_t shared, void** slots) = nullptr;

enum : unsigned char { boolean, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64, tf32, e4m3, e5m2, pointer = 32 };

// A number of 8 bits with so many bits of exponent, as a number of 64.
static double small_float(unsigned bits, int exponent_bits) {
    int fraction_bits = 7 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = int(bits >> fraction_bits) & ((1 << exponent_bits) - 1), fraction = int(bits) & ((1 << fraction_bits) - 1);
    double sign = bits & 128 ? -1 : 1, unit = 1;
    bool special = exponent_bits == 5 ? exponent == 31 : (bits & 127) == 127;
    if (special) return exponent_bits == 5 && fraction == 0 ? sign * __builtin_inf() : __builtin_nan("");
    int scale = (exponent ? exponent : 1) - bias - fraction_bits;
    for (int i = 0; i < (scale < 0 ? -scale : scale); ++i) unit *= scale < 0 ? 0.5 : 2;
    return sign * unit * (exponent ? fraction + (1 << fraction_bits) : fraction);
}
template <typename T>
static T read(void const* from) {
    T value;
    memcpy(&value, from, sizeof value);
    return value;
}
static word word_of(unsigned char code, void const* from) {
    word w{};
    switch (code) {
        case boolean:
        case u8: w.integer = read<unsigned char>(from); break;
        case i8: w.integer = read<signed char>(from); break;
        case i16: w.integer = read<short>(from); break;
        case u16: w.integer = read<unsigned short>(from); break;
        case i32: w.integer = read<int>(from); break;
        case u32: w.integer = read<unsigned>(from); break;
        case i64:
        case u64: w.integer = read<long long>(from); break;
        case f16: w.number = double(read<_Float16>(from)); break;
        case bf16: w.number = double(__builtin_bit_cast(float, unsigned(read<unsigned short>(from)) << 16)); break;
        case f32:
        case tf32: w.number = double(read<float>(from)); break;
        case f64: w.number = read<double>(from); break;
        case e4m3: w.number = small_float(read<unsigned char>(from), 4); break;
        case e5m2: w.number = small_float(read<unsigned char>(from), 5); break;
        default: w.address = read<void const*>(from);
    }
    return w;
}

struct running {
    explicit running(char const* name) { __atomic_store_n(&running_tile, name, __ATOMIC_RELAXED); }
    ~running() { __atomic_store_n(&running_tile, (char const*)nullptr, __ATOMIC_RELAXED); }
};

cudaError_t run_tile(kernel const& what, configuration const& how, void** slots) {
    fflush(stdout);  // what the program has printed comes before what the kernel prints
    running here{what.name};
    tile_code const* found = nullptr;
    {
        locked here;
        for (tile_code const* each : compiled)
            if (strcmp(each->key, what.key) == 0) found = each;
    }
    if (!found && launcher) {
        trust_memory();
        auto const status = cudaError_t(launcher(what.key, how.grid, slots));
        if (*refusal) refuse(refusal_category, "%s", refusal);
        *refusal = 0;
        return status;
    }
    if (!found) return cudaErrorInvalidDeviceFunction;
    word words[most_parameters];
    bool null = false;
    if (what.parameters > sizeof words / sizeof *words) return cudaErrorLaunchOutOfResources;
    for (unsigned i = 0; i < what.parameters; ++i) {
        words[i] = word_of(found->codes[i], slots[i]);
        if (found->codes[i] < pointer) continue;
        null |= !words[i].address;
        if (!words[i].address || holds(words[i].address, 0)) continue;
        refuse("dangling-pointer", "argument %u of %s() points to no memory of the device: get it from cudaMalloc or cudaMallocManaged", what.parts[i].argument, what.name);
        return cudaErrorIllegalAddress;
    }
    int status = found->run[null](how.grid[0], how.grid[1], how.grid[2], words);
    if (status == 0) return cudaSuccess;
    say("%s", found->message());
    if (null && strstr(found->message(), "which is a null pointer")) return cudaErrorIllegalAddress;
    return status == 3 ? cudaErrorAssert : cudaErrorLaunchFailure;
}

void** parts_of(kernel const& what, void** arguments, void** room) {
    bool same = true;
    for (unsigned i = 0; i < what.parameters; ++i) same &= what.parts[i].argument == i;
    if (same || !arguments) return arguments;
    for (unsigned i = 0; i < what.parameters; ++i) {
        auto* first = (char*)arguments[what.parts[i].argument];
        room[i] = first ? first + what.parts[i].offset : nullptr;
    }
    return room;
}

cudaError_t refused_launch(kernel const& what, configuration const& how, void** slots) {
    for (unsigned i = 0; i < what.parameters; ++i)
        if (!slots || !slots[i]) {
            say("argument %u of %s() is missing in the table of arguments", what.parts[i].argument, what.name);
            return cudaErrorInvalidValue;
        }
    unsigned const threads = how.block[0] * how.block[1] * how.block[2];
    if (threads > what.bound) {
        refuse(nullptr, "a block of %u threads of %s(), whose __launch_bounds__ allow %u", threads, what.name, what.bound);
        return cudaErrorInvalidValue;
    }
    if (!what.simt && (threads != 1 || how.grid[0] >= 1 << 24)) {
        refuse(nullptr, "%s() is a tile kernel: its block is 1, and the first extent of its grid below 2^24", what.name);
        return cudaErrorInvalidConfiguration;
    }
    if (!what.simt) return cudaSuccess;
    if (what.shared > shared_memory) {
        char told[160];
        snprintf(told, sizeof told, "has %zu bytes of static shared memory, where a kernel may have %zu: make it dynamic, extern __shared__", size_t(what.shared), shared_memory);
        say_of(what, told);
        return cudaErrorInvalidValue;
    }
    if (how.shared > shared_room(what)) {
        refuse(nullptr, "%zu bytes of dynamic shared memory for %s(), which may have %zu: allow more by cudaFuncSetAttribute", how.shared, what.name, shared_room(what));
        return cudaErrorInvalidValue;
    }
    return cudaSuccess;
}
cudaError_t run(kernel const& what, configuration const& how, void** slots) {
    if (broken() != cudaSuccess) return broken();
    launching here;
    if (cudaError_t const error = refused_launch(what, how, slots)) return error;
    kernel_results results(what.name, checking() && !what.waits);
    if (!what.simt) return run_tile(what, how, slots);
    if (!simt_launcher) return run_simt(what, how, slots);
    fflush(stdout);
    unsigned const *g = how.grid, *b = how.block, shape[] = {g[0], g[1], g[2], b[0], b[1], b[2]};
    return cudaError_t(simt_launcher(what.key, shape, how.shared, slots));
}
cudaError_t launch_in_order(kernel const& what, configuration const& how, void** slots) {
    if (capturing(how.stream)) return capture(how.stream, kernel_node(&what, how, slots));
    if (what.waits)
        if (cudaError_t const error = broken() != cudaSuccess ? broken() : refused_launch(what, how, slots)) return error;
    return in_order(how.stream, what.waits, [&] { return run(what, how, slots); }, [&] { return kernel_node(&what, how, slots); });
}

static cudaError_t launch_next(kernel const* what, void** slots) {
    begun const found = launches_begun ? launches[--launches_begun] : begun{{}, cudaErrorMissingConfiguration};
    cudaError_t const error = what ? found.refused : cudaErrorInvalidDeviceFunction;
    if (error == cudaErrorMissingConfiguration && what)
        say_of(*what, "is called like a function; kernels are launched, by <<<...>>>");
    if (error == cudaErrorInvalidConfiguration && what && checking()) {
        unsigned const *g = found.how.grid, *b = found.how.block;
        refuse(nullptr, "a grid of (%u, %u, %u) and a block of (%u, %u, %u) for %s(), where no extent may be 0, a block has up to %d threads, and 64 in z, and y and z of a grid are below 65536",
               g[0], g[1], g[2], b[0], b[1], b[2], what->name, max_threads);
    }
    return error != cudaSuccess ? error : launch_in_order(*what, found.how, slots);
}

}  // namespace tilewright

using namespace tilewright;

extern "C" {
void __tw_register_tile_code(void const* codes, unsigned count) {
    auto* table = (tile_code const*)codes;
    locked here;
    for (unsigned i = 0; i < count; ++i) compiled.add(table + i);
}
void __tw_refuse(char const* category, char const* why) {
    snprintf(refusal_category, sizeof refusal_category, "%s", category);
    snprintf(refusal, sizeof refusal, "%s", why);
}
void __tw_set_launcher(int (*given)(char const*, unsigned const*, void**)) { launcher = given; }
void __tw_set_simt_launcher(int (*given)(char const*, unsigned const*, size_t, void**)) { simt_launcher = given; }

cudaError_t __tw_host_configure(unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                size_t shared, cudaStream_t stream) {
    if (launches_begun == most_begun) memmove(launches, launches + 1, --launches_begun * sizeof *launches);
    configuration const how = {{gx, gy, gz}, {bx, by, bz}, shared, stream};
    cudaError_t const known = on(stream), refused = known == cudaSuccess ? check(how) : known;
    launches[launches_begun++] = {how, refused};
    return report(refused);
}
// What a kernel does when the program calls it: `what` describes it.
cudaError_t __tw_host_launch(void const* what, void** slots) { return report(launch_next((kernel const*)what, slots)); }
// As cudaLaunchKernel names kernels, by their address.
cudaError_t __tw_host_launch_function(void const* function, void** slots) {
    kernel const* found = find_kernel(function);
    void* room[most_parameters];
    cudaError_t const outcome = report(launch_next(found, found ? parts_of(*found, slots, room) : slots));
    refusals_are_known();
    return outcome;
}
}
