// Checks of what SIMT kernels access, in programs under the sanitizer.
#include "simt.h"
#include <dlfcn.h>

namespace tilewright {

// `Row` of cpp/host/findings.py.
struct finding {
    char const *kernel, *file, *category;
    int line, column, placed;  // in a block, or also by a thread
    unsigned coordinates[6];  // of the thread, and of its block
    unsigned long long count;
    char message[256];
};
struct place {
    char const* file;
    int line, column, alignment;  // of what is accessed
};
constexpr size_t first_page = 4096;  // where no memory is: null pointers and what is made from them
static list<finding> findings;
static int (*reporter)(finding const*, unsigned count) = nullptr;
static unsigned heap_changes = 0;

bool checking() { return reporter != nullptr; }

void note(launch const* run, char const* category, char const* file, int line, int column, unsigned const* coordinates,
          char const* message, bool of_block) {
    locked here;
    for (finding& each : findings)
        if (each.line == line && each.column == column && strcmp(each.file, file) == 0 &&
            strcmp(each.category, category) == 0) {
            ++each.count;
            return;
        }
    finding made{run->kernel, file, category, line, column, coordinates ? of_block ? 1 : 2 : 0, {}, 1, ""};
    if (coordinates) memcpy(made.coordinates, coordinates, sizeof made.coordinates);
    snprintf(made.message, sizeof made.message, "%s", message);
    findings.add(made);
}

cudaError_t report_findings() {
    if (!reporter) return cudaSuccess;
    int status = reporter(findings.items, unsigned(findings.count));
    locked here;
    findings.clear();
    return cudaError_t(status);
}

static finding found_at(char const* category, char const* message, char const* file, int line) {
    finding made{"", file, category, line, 0, 0, {}, 1, ""};
    snprintf(made.message, sizeof made.message, "%s", message);
    return made;
}
void note_in_host_code(char const* category, char const* message) {
    if (!reporter) return;
    char file[512];
    int const line = place_in_host_code(file, int(sizeof file));
    finding const made = found_at(category, message, file, line);
    reporter(&made, 1);
}
void note_at_frames(char const* category, char const* message, void* const* found, int count) {
    char file[512];
    int const line = place_of(found, count, file, int(sizeof file));
    finding const made = found_at(category, message, file, line);
    reporter(&made, 1);
}
static list<finding> refusals;  // launches, until the program asks for errors
void note_refusal(char const* message) {
    if (!reporter) return;
    char file[512];
    int const line = place_in_host_code(file, int(sizeof file));
    finding const made = found_at("refused-launch", message, strdup(file), line);
    locked here;
    refusals.add(made);
}
void refusals_are_known() {
    locked here;
    refusals.clear();
}
void report_refusals() {
    report_host_uses();
    if (refusals.count) reporter(refusals.items, unsigned(refusals.count));
    refusals_are_known();
}

void forget(checks& what) {
    for (shadow& each : what.shadows) free(each.cells);
    what.shadows.clear();
    what.shared.clear();
    free(what.elsewhere);
}

static bool within(span const& all, size_t address) { return address >= all.start && address <= all.end; }

static host_variable* hosts;  // of the file that was loaded last

enum class owner { nobody, program, variable, device };
// What `address` is in, or at the end of; of memory that is the program's own the bounds are not known.
static owner find_owner(worker* mine, size_t address, span* bounds) {
    checks& known = mine->checked;
    if (address < first_page) return owner::nobody;
    unsigned now = __atomic_load_n(&heap_changes, __ATOMIC_RELAXED);
    if (known.changes != now) known.latest = {};
    known.changes = now;
    *bounds = known.latest;
    if (known.latest.has(address)) return owner::device;
    span const* variable = nullptr;  // that `address` is in rather than at the end of
    for (span const& each : known.shared)
        if (within(each, address) && (!variable || address < each.end)) variable = &each;
    if (variable) {
        *bounds = *variable;
        return owner::variable;
    }
    auto const is_global = [&] {
        Dl_info image;
        return dladdr((void const*)address, &image) != 0;
    };
    bool const known_memory = bounds_of((void const*)address, &bounds->start, &bounds->end);
    if (known_memory && (address < bounds->end || !is_global())) {  // a variable may begin where another one ends
        known.latest = *bounds;
        known.written = written_bytes((void const*)address);
        known.users = users_of((void const*)address);
        return owner::device;
    }
    for (host_variable const* file = hosts; file; file = (host_variable const*)file->start)
        for (host_variable const* each = file + 1; each->start; ++each)
            if (address - each->start < each->bytes) return owner::nobody;
    bool const own = within({size_t(mine->memory), size_t(mine->memory_end)}, address) ||
                     within({size_t(mine->frames), size_t(mine->frames) + mine->frame_bytes}, address);
    return own || is_global() ? owner::program : owner::nobody;
}

static void* harmless(checks& known, size_t size) {
    if (size > known.elsewhere_bytes) {
        free(known.elsewhere);
        known.elsewhere_bytes = (size + 4095) / 4096 * 4096;
        known.elsewhere = (unsigned char*)aligned_alloc(64, known.elsewhere_bytes);
        if (!known.elsewhere) abort();
    }
    memset(known.elsewhere, 0, size);
    return known.elsewhere;
}

void passed_barrier(worker* mine) {
    ++mine->checked.barriers;
    ++mine->spin.moves;
}
void passed_by_warp(worker* mine, unsigned warp) {
    ++mine->checked.warp_barriers[warp % 32];
    ++mine->spin.moves;
}

enum : int { loads, stores, updates, atomic_stores, of_volatile = 8 };  // updates are atomic operations that read
constexpr unsigned short several_readers = 0xffff, in_one_warp = 0x8000;

// Notes which block runs.
static void begin_block(checks& known, unsigned const* c) {
    if (known.block && memcmp(known.at, c + 3, sizeof known.at) == 0) return;
    ++known.block;
    memcpy(known.at, c + 3, sizeof known.at);
    known.barriers = 0;
    memset(known.warp_barriers, 0, sizeof known.warp_barriers);
}
static cell* cells_of(checks& known, size_t address, size_t* left) {
    for (shadow const& each : known.shadows)
        if (address >= each.where.start && address < each.where.end) {
            *left = each.where.end - address;
            return each.cells + (address - each.where.start);
        }
    for (span const& each : known.shared)
        if (address >= each.start && address < each.end) {
            size_t bytes = each.end - each.start;
            known.shadows.add({each, (cell*)calloc(bytes, sizeof(cell))});
            *left = each.end - address;
            cell* cells = known.shadows[known.shadows.count - 1].cells;
            return cells ? cells + (address - each.start) : nullptr;
        }
    return nullptr;
}
static bool is_shared(checks const& known, size_t address) {
    for (span const& each : known.shared)
        if (each.has(address)) return true;
    return false;
}
// What is wrong with an access of shared memory, or null: another thread used it since the last barrier, or nobody wrote it.
static char const* watch(worker* mine, size_t address, size_t size, int what, unsigned const* c, unsigned* other) {
    checks& known = mine->checked;
    size_t left = 0;
    cell* cells = cells_of(known, address, &left);
    if (!cells) return nullptr;
    unsigned const* b = mine->run->block;
    unsigned thread = (c[2] * b[1] + c[1]) * b[0] + c[0] + 1, warp = (thread - 1) / 32 % 32;
    unsigned now = known.barriers, in_warp = known.warp_barriers[warp];
    // Threads of a warp are in order where the warp has met in between.
    auto races = [&](unsigned who, unsigned when, unsigned when_warp) {
        unsigned const of = who >= in_one_warp ? who - in_one_warp : (who - 1) / 32 % 32;
        return who && who != thread && when == now && (of != warp || when_warp == in_warp);
    };
    char const* wrong = nullptr;
    for (size_t i = 0; i < size && i < left; ++i) {
        cell& each = cells[i];
        if (each.block != known.block) each = {known.block, 0, 0, false, 0, 0, 0, 0};
        if (!wrong && !each.writer && (what == loads || what == updates)) wrong = "undefined-value";
        if (!wrong && races(each.writer, each.written, each.written_warp) && !(what >= updates && each.atomic)) {
            wrong = "a store";
            *other = each.writer;
        }
        if (!wrong && what != loads && races(each.reader, each.read, each.read_warp)) {
            wrong = "a load";
            *other = each.reader;
        }
        if (what == loads) {
            unsigned const before = each.reader, of = before >= in_one_warp ? before - in_one_warp : (before - 1) / 32 % 32;
            bool const again = before && each.read == now && before != thread;
            each.reader = (unsigned short)(!again ? thread : of == warp ? in_one_warp + warp : several_readers);
            each.read = now;
            each.read_warp = in_warp;
        } else {
            each.writer = (unsigned short)thread;
            each.written = now;
            each.written_warp = in_warp;
            each.atomic = what >= updates;
        }
    }
    return wrong;
}

// The same for an access of other memory, at the byte `offset` of an allocation.
static char const* watch_device(checks& known, size_t offset, size_t size, int what) {
    if (!known.written) return nullptr;
    unsigned char* bytes = known.written + offset;
    bool const unwritten = (what == loads || what == updates) && !memchr(bytes, 1, size);
    if (what != loads) memset(bytes, 1, size);
    return unwritten ? "undefined-value" : nullptr;
}

// Where threads of a launch use the same bytes of other memory, one of them to write, and nothing orders the two: says who
// the other one is. Stores beside stores are left alone, as programs store the same value by several threads, and launches
// in which blocks may have waited for each other, by atomic or volatile accesses.
static char const* watch_users(worker* mine, size_t offset, size_t size, int what, unsigned const* c, unsigned long long* other) {
    constexpr int of_barriers = 16, of_thread = 32;  // bits, below those of the number of the launch
    launch& run = *mine->run;
    if (!mine->checked.users || __atomic_load_n(&run.ordered, __ATOMIC_RELAXED)) return nullptr;
    unsigned const *b = run.block, *g = run.grid;
    unsigned long long const threads = (unsigned long long)b[0] * b[1] * b[2];
    unsigned long long const block = (c[5] * (unsigned long long)g[1] + c[4]) * g[0] + c[3];
    unsigned long long const thread = block * threads + (c[2] * b[1] + c[1]) * b[0] + c[0];
    if (thread >> of_thread) return nullptr;
    unsigned long long const self = run.number << (of_barriers + of_thread) | thread << of_barriers | (mine->checked.barriers & 0xffff);
    auto const races = [&](unsigned long long user) {
        if ((user ^ self) >> (of_barriers + of_thread)) return false;  // an earlier launch
        unsigned long long const its = user >> of_barriers & ((1ull << of_thread) - 1);
        if (its / threads != block) return true;
        bool const in_warp = its % threads / 32 == thread % threads / 32;  // in which there is more order
        return !in_warp && ((user ^ self) & 0xffff) == 0;
    };
    char const* wrong = nullptr;
    for (byte_users *each = mine->checked.users + offset, *end = each + size; each < end; ++each) {
        unsigned long long* const own = what == loads ? &each->reader : &each->writer;
        unsigned long long const user = __atomic_load_n(what == loads ? &each->writer : &each->reader, __ATOMIC_RELAXED);
        if (!wrong && user && races(user)) {
            wrong = what == loads ? "a store" : "a load";
            *other = user >> of_barriers & ((1ull << of_thread) - 1);
        }
        __atomic_store_n(own, self, __ATOMIC_RELAXED);
    }
    return wrong;
}

}  // namespace tilewright

using namespace tilewright;

extern "C" {
void __tw_set_reporter(int (*given)(finding const*, unsigned)) { reporter = given; }

// A variable in shared memory; one that the launch sizes has -1 bytes.
void __tw_simt_object(void* address, size_t size) {
    if (!here) return;
    span wanted{size_t(address), size_t(address) + (size == size_t(-1) ? here->run->shared : size)};
    if (!here->checked.shared.holds(wanted)) here->checked.shared.add(wanted);
}

// The variables of the host in a file of the program, of which a GPU sees none, after an entry for the next file.
void __tw_simt_hosts(host_variable* file) {
    file->start = size_t(hosts);
    hosts = file;
}

// What kernels allocate themselves is memory of the device.
void* __tw_simt_malloc(size_t size) {
    __atomic_add_fetch(&heap_changes, 1, __ATOMIC_RELAXED);
    return heap(size);
}
void __tw_simt_free(void* address) {
    __atomic_add_fetch(&heap_changes, 1, __ATOMIC_RELAXED);
    if (!address || leave_heap(address)) return;
    if (holds(address, 0)) say("a kernel frees %p, which no kernel allocated", address);
    else free(address);  // of code that is not checked
}
void __tw_simt_free_sized(void* address, size_t) { __tw_simt_free(address); }

// All threads of a block have passed a barrier, or have left a loop with one.
void __tw_simt_passed(int kind) {
    constexpr int leaves = 3;
    if (here && kind != leaves) passed_barrier(here);
}

// The second operand for an operation on integers of `bits` bits, which is `code`: `cpp/host/bounds.py` numbers them. Where
// the result has no meaning that is noted, and another one given, by which it has one.
long long __tw_simt_operands(int code, int bits, long long a, long long b, place const* at, unsigned x, unsigned y,
                             unsigned z, unsigned block_x, unsigned block_y, unsigned block_z) {
    enum : int { udiv, sdiv, urem, srem };  // and three shifts behind them
    char message[96];
    auto const wrong = [&](char const* category) {
        unsigned const coordinates[6] = {x, y, z, block_x, block_y, block_z};
        if (here && checking()) note(here->run, category, at->file, at->line, at->column, coordinates, message);
    };
    if (code <= srem) {
        bool const divides = code <= sdiv, is_signed = code == sdiv || code == srem;
        if (b == 0 && is_signed) snprintf(message, sizeof message, "%s of %lld by zero", divides ? "division" : "remainder", a);
        else if (b == 0) snprintf(message, sizeof message, "%s of %llu by zero", divides ? "division" : "remainder", a);
        else if (is_signed && a == -1ll << (bits - 1) && b == -1) snprintf(message, sizeof message, "%lld / -1 does not fit %d bits", a, bits);
        else return b;
        wrong(b == 0 ? "division-by-zero" : "div-overflow");
        return 1;
    }
    if ((unsigned long long)b < (unsigned long long)bits) return b;
    long long const count = (b >> 31) == 1 ? (long long)(int)b : b;  // of an int, which the compiler has made wider
    if (count < 0) snprintf(message, sizeof message, "shift by %lld, which is negative", count);
    else snprintf(message, sizeof message, "shift by %lld, but the number has %d bits", count, bits);
    wrong(count < 0 ? "shift-negative" : "shift-too-wide");
    return b & (bits - 1);
}

// The address for an access of `size` bytes at `address`: that, or one where it does no harm. `base` is what it was made
// from: a variable of `extent` bytes, if that is not 0.
void* __tw_simt_checked(void* address, void* base, size_t size, size_t extent, int done, place const* at, unsigned x,
                        unsigned y, unsigned z, unsigned block_x, unsigned block_y, unsigned block_z) {
    worker* mine = here;
    if (!mine || !checking()) return address;
    mine->run->asked = true;
    bool const is_volatile = done & of_volatile;
    done &= ~of_volatile;
    if (extent == size_t(-1)) extent = mine->run->shared;
    span bounds{size_t(base), size_t(base) + extent};
    owner found = extent ? owner::variable : find_owner(mine, size_t(base), &bounds);
    size_t start = size_t(address);
    // A pointer that a program has moved before its memory, to move it back: published stencils do so.
    if (found == owner::nobody && size_t(base) >= first_page && base != address) found = find_owner(mine, start, &bounds);
    if ((is_volatile || done >= updates) && !is_shared(mine->checked, start)) __atomic_store_n(&mine->run->ordered, true, __ATOMIC_RELAXED);
    if (is_volatile && !is_shared(mine->checked, start)) __atomic_store_n(&mine->run->is_public, true, __ATOMIC_RELAXED);
    if (found == owner::program) return address;
    char message[256];
    char const* what = done == loads ? "load of" : done == stores ? "store of" : "atomic operation on";
    unsigned long long bytes = size, total = bounds.end - bounds.start;
    long long offset = (long long)(start - bounds.start);
    unsigned const coordinates[6] = {x, y, z, block_x, block_y, block_z};
    begin_block(mine->checked, coordinates);
    // An access of part of an object needs no more than its own bytes do.
    size_t const even = size & -size, given = size_t(at->alignment), least = size && even < given ? even : given;
    bool const inside = found != owner::nobody && start >= bounds.start && start <= bounds.end && size <= bounds.end - start;
    if (inside && start % least == 0) {
        unsigned other = 0;
        char const* wrong = found == owner::variable ? watch(mine, start, size, done, coordinates, &other)
                                                     : watch_device(mine->checked, start - bounds.start, size, done);
        unsigned long long user = 0;
        if (!wrong && found == owner::device)
            if (char const* beside = watch_users(mine, start - bounds.start, size, done, coordinates, &user)) {
                unsigned const *b = mine->run->block, *g = mine->run->grid;
                unsigned const threads = b[0] * b[1] * b[2], t = unsigned(user % threads), k = unsigned(user / threads);
                snprintf(message, sizeof message, "%s %llu byte%s beside %s by thread (%u, %u, %u) of block (%u, %u, %u), with no order between them",
                         what, bytes, bytes == 1 ? "" : "s", beside, t % b[0], t / b[0] % b[1], t / b[0] / b[1], k % g[0], k / g[0] % g[1], k / g[0] / g[1]);
                note(mine->run, "data-race", at->file, at->line, at->column, coordinates, message);
            }
        if (!wrong) return address;
        if (!other) {
            snprintf(message, sizeof message, "%s %llu byte%s of %s", what, bytes, bytes == 1 ? "" : "s",
                     found == owner::device ? "memory that nobody has written"
                                            : "shared memory that its block has not written");
        } else {
            int used = snprintf(message, sizeof message, "%s %llu byte%s of shared memory beside %s by ", what, bytes,
                                bytes == 1 ? "" : "s", wrong);
            unsigned const* b = mine->run->block;
            unsigned one = other - 1;
            if (other >= in_one_warp) snprintf(message + used, sizeof message - size_t(used), "other threads");
            else
                snprintf(message + used, sizeof message - size_t(used), "thread (%u, %u, %u)", one % b[0], one / b[0] % b[1],
                         one / b[0] / b[1]);
            strncat(message, ", without a barrier between them", sizeof message - strlen(message) - 1);
        }
        note(mine->run, other ? "data-race" : "undefined-value", at->file, at->line, at->column, coordinates, message);
        return address;
    }
    if (inside)
        snprintf(message, sizeof message, "%s %llu bytes at an address that is no multiple of %zu", what, bytes, least);
    else if (found != owner::nobody)
        snprintf(message, sizeof message, "%s %llu byte%s at byte %lld of %s of %llu bytes", what, bytes,
                 bytes == 1 ? "" : "s", offset, found == owner::device ? "an allocation" : "a variable", total);
    else if (size_t(base) < first_page)
        snprintf(message, sizeof message, "%s %llu bytes through a null pointer", what, bytes);
    else
        snprintf(message, sizeof message, "%s %llu bytes at %p, which is no memory of the device", what, bytes, address);
    char const* category = inside ? "misaligned-access" : found == owner::nobody ? "dangling-pointer" : "out-of-bounds";
    note(mine->run, category, at->file, at->line, at->column, coordinates, message);
    return harmless(mine->checked, size);
}
}
