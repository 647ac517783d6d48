// Runs SIMT kernels: blocks are taken from a counter by the threads of the machine. A block is loops over
// its threads, split at its barriers; where lanes of a warp wait for each other, each thread is a fiber, which is left
// where it waits.
#include "simt.h"
#include <sys/mman.h>
#include <unistd.h>

namespace tilewright {
static size_t page_bytes() { return size_t(sysconf(_SC_PAGESIZE)); }
static size_t rounded(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }
constexpr size_t stack_stride = stack_bytes + 5 * 64;  // stacks of a block do not share the sets of a cache

// Saves what calls preserve on the stack, notes the stack pointer, and goes on with another stack.
#if defined(__x86_64__)
__attribute__((naked, noinline)) static void change_stack(void** saved, void* next) {
    asm volatile(
        "pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
        "movq %rsp, (%rdi)\n movq %rsi, %rsp\n"
        "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n retq\n");
}
static void* first_frame(unsigned char* stack, void (*entry)()) {
    auto** top = (void**)(stack + stack_bytes);
    top[-1] = nullptr;
    top[-2] = (void*)entry;
    return top - 8;
}
#elif defined(__aarch64__)
__attribute__((naked, noinline)) static void change_stack(void** saved, void* next) {
    asm volatile(
        "sub sp, sp, #160\n stp x19, x20, [sp]\n stp x21, x22, [sp, #16]\n stp x23, x24, [sp, #32]\n"
        "stp x25, x26, [sp, #48]\n stp x27, x28, [sp, #64]\n stp x29, x30, [sp, #80]\n"
        "stp d8, d9, [sp, #96]\n stp d10, d11, [sp, #112]\n stp d12, d13, [sp, #128]\n stp d14, d15, [sp, #144]\n"
        "mov x9, sp\n str x9, [x0]\n mov sp, x1\n"
        "ldp x19, x20, [sp]\n ldp x21, x22, [sp, #16]\n ldp x23, x24, [sp, #32]\n"
        "ldp x25, x26, [sp, #48]\n ldp x27, x28, [sp, #64]\n ldp x29, x30, [sp, #80]\n"
        "ldp d8, d9, [sp, #96]\n ldp d10, d11, [sp, #112]\n ldp d12, d13, [sp, #128]\n ldp d14, d15, [sp, #144]\n"
        "add sp, sp, #160\n ret\n");
}
static void* first_frame(unsigned char* stack, void (*entry)()) {
    auto** frame = (void**)(stack + stack_bytes) - 20;
    frame[11] = (void*)entry;
    return frame;
}
#else
#error "SIMT kernels run on x86-64 and AArch64"
#endif

thread_local worker* here = nullptr;
static thread_local unsigned const* coordinates_here = nullptr;

char const others_ended[] = "a barrier that not all threads of the block reach: others have ended";
char const others_elsewhere[] = "a barrier that not all threads of the block reach: others wait at another one";
char const lanes_missing[] = "a warp operation that not all lanes of its mask reach";
static char const others_left[] = "a barrier that not all threads of the block reach: others have left its loop";

void fail(launch* run, char const* file, int line, char const* what) {
    if (__atomic_exchange_n(&run->failed, 1, __ATOMIC_ACQ_REL) != 0) return;
    run->file = file;
    run->line = line & ((1 << column_shift) - 1);
    run->column = (line >> column_shift) - 1;
    if (here && here->current) memcpy(run->at + 3, here->current->coordinates + 3, sizeof run->at / 2);
    snprintf(run->message, sizeof run->message, "%s", what);
}
void leave(fiber* self, state now) {
    self->now = now;
    change_stack(&self->stack_pointer, here->stack_pointer);
}
// The next blocks for a worker: from `first` on, `end` not included; none where the run has failed.
struct share {
    unsigned long long first, end;
    explicit share(launch* run) {
        first = __atomic_fetch_add(&run->next, run->chunk, __ATOMIC_RELAXED);
        end = first + run->chunk < run->count ? first + run->chunk : run->count;
        if (__atomic_load_n(&run->failed, __ATOMIC_RELAXED)) end = first;
    }
};
static void place_block(launch const* run, unsigned* coordinates, unsigned long long number) {
    if (run->what.how == way::ranges) {
        unsigned long long const range = number % run->ranges;
        unsigned long long first = range * run->width, left = run->all - first;
        if (run->apart) {
            first = range / run->apart * *run->what.width + range % run->apart * run->width;
            left = run->width;
        }
        coordinates[3] = unsigned(first);
        coordinates[4] = unsigned(first >> 32);
        coordinates[6] = left < run->width ? unsigned(left) : run->width;
        return;
    }
    unsigned long long row = number / run->grid[0];
    coordinates[3] = unsigned(number % run->grid[0]);
    coordinates[4] = unsigned(row % run->grid[1]);
    coordinates[5] = unsigned(row / run->grid[1]);
}
// Goes on to the next block of those that this thread has taken: false if there is none, or the run has failed.
extern "C" bool __tw_simt_next(unsigned* coordinates) {
    worker* const mine = here;
    launch const* const run = mine->run;
    if (++mine->number >= mine->end || __atomic_load_n(&run->failed, __ATOMIC_RELAXED)) return false;
    if (run->what.how == way::ranges) place_block(run, coordinates, mine->number);
    else if (++coordinates[3] == run->grid[0]) {
        coordinates[3] = 0;
        if (++coordinates[4] == run->grid[1]) {
            coordinates[4] = 0;
            ++coordinates[5];
        }
    }
    return true;
}
// What a fiber runs: one thread, or all blocks of a worker, if threads of a block are loops.
static void enter() {
    fiber* self = here->current;
    launch* run = here->run;
    if (run->what.how == way::fibers) run->what.thread(run->slots, self->coordinates);
    else
        for (share some(run); some.first < some.end; some = share(run)) {
            here->number = some.first;
            here->end = some.end;
            place_block(run, self->coordinates, some.first);
            do {
                if (run->what.how == way::warps) run_by_warps(here, self->coordinates);
                else run->what.block(run->slots, self->coordinates);
            } while (__tw_simt_next(self->coordinates));
        }
    leave(self, state::done);
    __builtin_trap();
}
static void resume(worker* mine, fiber* next) {
    mine->current = next;
    coordinates_here = next->coordinates;
    next->now = state::ready;
    change_stack(&mine->stack_pointer, next->stack_pointer);
}

// Lets the threads at a barrier go on, if all of the block are there. False for a barrier that others cannot reach.
static bool release_barrier(worker* mine) {
    fiber* first = nullptr;
    unsigned done = 0, waiting = 0, sum = 0;
    for (unsigned i = 0; i < mine->threads; ++i) {
        fiber& each = mine->fibers[i];
        if (each.now == state::done) ++done;
        if (each.now != state::at_barrier) continue;
        ++waiting;
        sum += each.predicate;
        if (!first) first = &each;
        if (first->line != each.line || (first->file != each.file && __builtin_strcmp(first->file, each.file) != 0)) {
            fail(mine->run, each.file, each.line, others_elsewhere);
            return false;
        }
    }
    if (!first) return done == mine->threads;
    if (waiting != mine->threads) {
        fail(mine->run, first->file, first->line,
             done ? others_ended
                  : "a barrier that not all threads of the block reach: others wait for lanes of their warp");
        return false;
    }
    mine->outcome = int(sum);
    passed_barrier(mine);
    for (unsigned i = 0; i < mine->threads; ++i) mine->fibers[i].now = state::ready;
    return true;
}

// Lets the lanes that wait at the place of `self` for whichever come there go on, with their mask.
static void release_active(fiber* warp, unsigned count, fiber const* self) {
    unsigned active = 0;
    for (unsigned lane = 0; lane < count; ++lane) {
        fiber& other = warp[lane];
        bool here = other.now == state::at_exchange && !other.mask && other.line == self->line;
        if (here && __builtin_strcmp(other.file, self->file) == 0) active |= 1u << lane;
    }
    for (unsigned lane = 0; lane < count; ++lane)
        if (active >> lane & 1) {
            for (unsigned long long& each : warp[lane].taken.words) each = active;
            warp[lane].now = state::ready;
        }
}
// Gives the lanes of a mask the values of all, once they have all come.
static bool release_exchange(worker* mine, unsigned at) {
    fiber* self = mine->fibers + at;
    unsigned first = at & ~31u, count = mine->threads - first < 32 ? mine->threads - first : 32;
    unsigned mask = count < 32 ? self->mask & ((1u << count) - 1) : self->mask;
    if (!self->mask) {
        release_active(mine->fibers + first, count, self);
        return true;
    }
    unsigned long long all[32] = {};
    for (unsigned lane = 0; lane < count; ++lane) {
        fiber& other = mine->fibers[first + lane];
        if (!(mask >> lane & 1)) continue;
        if (other.now != state::at_exchange || other.mask != self->mask) return false;
        all[lane] = other.given;
    }
    passed_by_warp(mine, first / 32);
    for (unsigned lane = 0; lane < count; ++lane) {
        if (!(mask >> lane & 1)) continue;
        __builtin_memcpy(mine->fibers[first + lane].taken.words, all, sizeof all);
        mine->fibers[first + lane].now = state::ready;
    }
    return true;
}

// What the coordinates of a thread have in common for all blocks.
static void place(launch* run, fiber& self, unsigned i) {
    unsigned width = run->block[0], plane = width * run->block[1];
    unsigned const found[coordinates_count] = {
        i % width, i % plane / width, i / plane, 0, 0, 0, run->block[0], run->block[1], run->block[2],
        run->grid[0], run->grid[1], run->grid[2]};
    __builtin_memcpy(self.coordinates, found, sizeof found);
    if (run->what.how != way::ranges) return;
    self.coordinates[7] = self.coordinates[8] = 1;
    self.coordinates[9] = unsigned(run->all);
    self.coordinates[10] = unsigned(run->all >> 32);
}
// False for lanes that wait for others of their warp which never come.
static bool run_warp(worker* mine, unsigned first, unsigned count) {
    for (bool ready = true; ready && !__atomic_load_n(&mine->run->failed, __ATOMIC_RELAXED);) {
        for (unsigned i = first; i < first + count; ++i)
            if (mine->fibers[i].now == state::ready) resume(mine, mine->fibers + i);
        ready = false;
        bool looks = false;  // some lane that spins, and may come yet
        unsigned refused = 0;  // the mask of lanes that cannot go on yet: never 0
        fiber* stuck = nullptr;
        for (unsigned i = first; i < first + count; ++i) {
            fiber& each = mine->fibers[i];
            if (each.now == state::at_exchange && (!each.mask || each.mask != refused) && !release_exchange(mine, i)) {
                refused = each.mask;
                stuck = &each;
            }
            ready |= each.now == state::ready;
            looks |= each.now == state::spinning;
        }
        if (!ready && !looks && stuck) {
            fail(mine->run, stuck->file, stuck->line, lanes_missing);
            return false;
        }
    }
    return true;
}
static void run_block(worker* mine, unsigned long long number) {
    launch* run = mine->run;
    for (unsigned i = 0; i < mine->threads; ++i) {
        fiber& each = mine->fibers[i];
        place_block(run, each.coordinates, number);
        each.stack_pointer = first_frame(each.stack, enter);
        each.now = state::ready;
    }
    // A warp goes on until its lanes have ended or wait for other warps, so that its stacks stay in the cache.
    for (unsigned round = 0; !__atomic_load_n(&run->failed, __ATOMIC_RELAXED); ++round) {
        begin_round(mine);
        for (unsigned first = 0; first < mine->threads; first += 32)
            if (!run_warp(mine, first, mine->threads - first < 32 ? mine->threads - first : 32)) return;
        bool waiting = false, again = false;
        for (unsigned i = 0; i < mine->threads; ++i) {
            fiber& each = mine->fibers[i];
            waiting |= each.now == state::at_barrier;
            if (each.now == state::spinning) {
                each.now = state::ready;
                again = true;
                spin(mine, each.file, each.line);
            }
        }
        if (again) {
            if (!end_round(mine, round)) return;
            continue;
        }
        if (!waiting || !release_barrier(mine)) return;
    }
}

// Memory for the threads of a block: stacks, between pages that nobody may touch, and behind those what is known of the
// threads.
static bool take_memory(worker* mine, unsigned warps) {
    size_t const page = page_bytes(), stacks = rounded(mine->threads * stack_stride, page);
    size_t const records = warps * sizeof(warp) + mine->threads * sizeof(fiber), bytes = stacks + 2 * page + records;
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    mine->memory = (unsigned char*)memory;
    mine->memory_end = mine->memory + bytes;
    size_t const first = size_t(memory), second = first + page + stacks;
    mine->stack_guards[0] = {first, first + page};
    mine->stack_guards[1] = {second, second + page};
    for (span const& each : mine->stack_guards) mprotect((void*)each.start, page, PROT_NONE);
    mine->warps = (warp*)(second + page);
    mine->fibers = (fiber*)(mine->warps + warps);
    for (unsigned i = 0; i < mine->threads; ++i) mine->fibers[i].stack = mine->memory + page + i * stack_stride;
    return true;
}
// The pages around the variables in shared memory of each file of the program, which this thread has taken from itself.
static thread_local list<span> guarded;

static void give_guards_back(void*) {
    for (span const& each : guarded) mprotect((void*)each.start, each.end - each.start, PROT_READ | PROT_WRITE);
    guarded.clear();
}
// Whoever leaves these variables, to memory that is others', meets pages first which nobody may touch. They stay so until
// the thread ends, whose memory another one gets.
void guard_shared(worker* mine) {
    // Processors are slow where a vector of lanes that are all left out would touch such a page, as where a condition
    // keeps the other threads of a block from what lies behind the variables: these bytes are nobody's.
    constexpr size_t reach = 16 << 10;
    static pthread_key_t key;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    unsigned char* found[2] = {};
    mine->run->what.guards(found);
    if (!found[0]) return;
    pthread_once(&once, [] { pthread_key_create(&key, give_guards_back); });
    size_t const page = page_bytes();
    for (int i = 0; i < 2; ++i) {
        size_t const first = size_t(found[i]) + (i ? reach : 0), end = size_t(found[i]) + guard_bytes - (i ? 0 : reach);
        span inner{rounded(first, page), end / page * page};
        if (inner.end <= inner.start) continue;  // of larger pages
        mine->shared_guards[i] = inner;
        if (guarded.holds(inner) || mprotect((void*)inner.start, inner.end - inner.start, PROT_NONE) != 0) continue;
        guarded.add(inner);
        pthread_setspecific(key, &guarded);
    }
}
void work(launch* run) {
    worker mine{};
    mine.run = run;
    bool fibers = run->what.how == way::fibers;
    unsigned threads = run->block[0] * run->block[1] * run->block[2];
    mine.threads = fibers ? threads : 1;
    unsigned warps = run->what.how == way::warps ? (threads + 31) / 32 : 0;
    if (!take_memory(&mine, warps)) {
        fail(run, "tilewright", 0, "no memory for the stacks of a block");
        return;
    }
    guard_shared(&mine);
    for (unsigned i = 0; i < warps; ++i) mine.warps[i].lanes = threads - 32 * i < 32 ? threads - 32 * i : 32;
    for (unsigned i = 0; i < mine.threads; ++i) place(run, mine.fibers[i], i);
    here = &mine;
    if (fibers)
        for (share some(run); some.first < some.end; some = share(run))
            for (; some.first < some.end && !__atomic_load_n(&run->failed, __ATOMIC_RELAXED); ++some.first)
                run_block(&mine, some.first);
    else {
        mine.fibers->stack_pointer = first_frame(mine.fibers->stack, enter);
        resume(&mine, mine.fibers);
    }
    here = nullptr;
    free(mine.frames);
    forget(mine.checked);
    munmap(mine.memory, size_t(mine.memory_end - mine.memory));
}

// Threads that wait for launches. One launch has them at a time; another one, of another thread of the program, runs on
// its own meanwhile. A process that was forked has none of its parent's.
struct helpers {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t work = PTHREAD_COND_INITIALIZER, idle = PTHREAD_COND_INITIALIZER;
    launch* run = nullptr;
    unsigned wanted = 0, busy = 0;
    int threads = 0;
    bool taken = false;
};
static helpers pool;

static void* serve(void*) {
    pthread_mutex_lock(&pool.mutex);
    for (;;) {
        while (pool.wanted == 0) pthread_cond_wait(&pool.work, &pool.mutex);
        --pool.wanted;
        ++pool.busy;
        launch* run = pool.run;
        pthread_mutex_unlock(&pool.mutex);
        work_counted(run);
        pthread_mutex_lock(&pool.mutex);
        if (--pool.busy == 0) pthread_cond_signal(&pool.idle);
    }
}
static void run_with_helpers(launch* run) {
    unsigned long long others = (unsigned long long)worker_count() - 1;
    if (others > run->count - 1) others = run->count - 1;
    pthread_mutex_lock(&pool.mutex);
    unsigned granted = pool.taken ? 0 : unsigned(__tw_take_threads(int(others)));
    others = granted;
    bool mine = granted > 0;
    if (mine) {
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        pthread_once(&once, [] { pthread_atfork(nullptr, nullptr, [] { pool = helpers{}; }); });
        for (pthread_t made; pool.threads < int(others) && pthread_create(&made, nullptr, serve, nullptr) == 0; ++pool.threads)
            pthread_detach(made);
        pool.taken = true;
        pool.run = run;
        pool.wanted = unsigned(others) < unsigned(pool.threads) ? unsigned(others) : unsigned(pool.threads);
        pthread_cond_broadcast(&pool.work);
    }
    pthread_mutex_unlock(&pool.mutex);
    work_counted(run);
    if (!mine) return;
    pthread_mutex_lock(&pool.mutex);
    pool.wanted = 0;  // those that have not begun need not
    while (pool.busy > 0) pthread_cond_wait(&pool.idle, &pool.mutex);
    pool.taken = false;
    pthread_mutex_unlock(&pool.mutex);
    __tw_give_threads(int(granted));
}

// Cuts the threads of a grid into ranges, enough for all of the machine; blocks along y and z go through them again.
static void make_ranges(launch& run) {
    unsigned const *g = run.grid, *b = run.block;
    unsigned const known = *run.what.width;
    run.all = (unsigned long long)g[0] * (known ? known : b[0]);
    if (known && known != b[0]) {
        bool const wraps = run.all + b[0] > 1ull << 31;
        run.apart = wraps ? b[0] : 1;
        run.width = wraps ? 1 : b[0];
        run.ranges = (unsigned long long)g[0] * run.apart;
        run.count = run.ranges * g[1] * g[2] * b[1] * b[2];
        return;
    }
    constexpr unsigned least = 16, most = 1 << 14, ranges_per_thread = 8;
    unsigned long long const share = run.all / ((unsigned long long)worker_count() * ranges_per_thread);
    for (run.width = least; run.width < most && run.width * 2 <= share; run.width *= 2) {}
    run.ranges = (run.all + run.width - 1) / run.width;
    run.count = run.ranges * g[1] * g[2] * b[1] * b[2];
}

cudaError_t run_simt(kernel const& what, configuration const& how, void** slots) {
    unsigned const *g = how.grid, *b = how.block;
    auto const& code = *(simt_code const*)what.code;
    static unsigned long long launches = 0;
    launch run{code, what.name, how.shared, slots, {g[0], g[1], g[2]}, {b[0], b[1], b[2]}, 0,
               (unsigned long long)g[0] * g[1] * g[2], 1, 0, 0, 0, 0, 0, "", 0, 0, false, false, false, __atomic_add_fetch(&launches, 1, __ATOMIC_RELAXED), {}, "", {}, {}};
    if (code.how == way::ranges) make_ranges(run);
    expect_faults();
    constexpr int chunks_per_thread = 64;
    unsigned long long chunks = (unsigned long long)worker_count() * chunks_per_thread;
    if (run.count > chunks) run.chunk = run.count / chunks;
    run.waits.asked_by = task_here();
    if (run.waits.asked_by) run_apart(&run);
    else run_with_helpers(&run);
    wait_for_more(&run);
    cudaError_t faulted = run.fault.signal ? report_fault(run) : cudaSuccess;
    bool asserted = strstr(run.message, "assertion failed") != nullptr;
    if (faulted == cudaSuccess && run.failed && checking())
        note(&run, asserted ? "failed-assertion" : "deadlock", run.file, run.line, run.column < 0 ? 0 : run.column, run.at, run.message, true);
    else if (faulted == cudaSuccess && run.failed) say("%s:%d: %s", run.file, run.line, run.message);
    if (!run.asked) trust_memory();
    if (run.is_public) results_are_public();
    cudaError_t stopped = report_findings();
    if (faulted != cudaSuccess) return faulted;
    return !run.failed ? stopped : asserted ? cudaErrorAssert : cudaErrorLaunchFailure;
}

}  // namespace tilewright

// Processors without instructions for bfloat16 call these, which the compiler's library may lack.
static __bf16 to_bfloat16(float x) {
    unsigned bits = __builtin_bit_cast(unsigned, x), even = bits + 0x7fff + (bits >> 16 & 1);
    return __builtin_bit_cast(__bf16, (unsigned short)(x != x ? bits >> 16 | 64 : even >> 16));
}
extern "C" {
__attribute__((weak)) __bf16 __truncsfbf2(float x) { return to_bfloat16(x); }
__attribute__((weak)) __bf16 __truncdfbf2(double x) {
    float near = float(x);  // towards the odd one of two neighbours, so that it is not rounded twice
    unsigned bits = __builtin_bit_cast(unsigned, near);
    if (x == x && double(near) != x && (bits & 1) == 0) bits += __builtin_fabs(double(near)) > __builtin_fabs(x) ? -1 : 1;
    return to_bfloat16(__builtin_bit_cast(float, bits));
}
// Memory of this worker for the variables of a block that live across barriers.
void* __tw_simt_frames(size_t bytes) {
    using namespace tilewright;
    if (bytes <= here->frame_bytes) return here->frames;
    free(here->frames);
    here->frame_bytes = (bytes + 63) / 64 * 64;
    here->frames = aligned_alloc(64, here->frame_bytes);
    if (here->frames) return here->frames;
    here->frame_bytes = 0;
    fail(here->run, "tilewright", 0, "no memory for the variables of a block");
    leave(here->current, state::done);
    __builtin_trap();
}
// A barrier that some threads of the block did not reach: they wait at another one, have ended (1), or
// have left the loop that it is in (2).
void __tw_simt_diverged(char const* file, int line, int why) {
    using namespace tilewright;
    fail(here->run, file, line, why == 0 ? others_elsewhere : why == 1 ? others_ended : others_left);
}
// Functions that host code calls, too, may ask.
unsigned __tw_simt_current(int which) {
    using namespace tilewright;
    unsigned const* const c = coordinates_here;
    if (!c || which < coordinates_count) return c ? c[which] : 0;
    return (c[0] + c[6] * (c[1] + c[7] * c[2])) & 31;  // the lane
}
// It lies beside the variables that blocks share, as those are thread_local, too.
char* __tw_simt_window() noexcept { return reinterpret_cast<char*>(&tilewright::here); }
__attribute__((noinline)) int __tw_simt_barrier(int kind, int predicate, char const* file, int line) {
    using namespace tilewright;
    fiber* self = here->current;
    self->predicate = predicate;
    self->file = file;
    self->line = line;
    leave(self, kind == spins ? state::spinning : state::at_barrier);
    return kind == 0 ? here->outcome : kind == 1 ? here->outcome == int(here->threads) : here->outcome > 0;
}
__attribute__((noinline)) void const* __tw_simt_exchange(unsigned mask, unsigned long long value, int bytes,
                                                         char const* file, int line) {
    using namespace tilewright;
    fiber* self = here->current;
    self->mask = mask;
    self->given = value;
    self->file = file;
    self->line = line;
    leave(self, state::at_exchange);
    if (bytes == 8) return self->taken.words;
    for (int i = 0; i < 32; ++i) self->taken.halves[i] = unsigned(self->taken.words[i]);
    return self->taken.halves;
}
__attribute__((noreturn, noinline)) void __tw_simt_assert(char const* what, char const* file, unsigned line, char const*) {
    using namespace tilewright;
    char text[256];
    snprintf(text, sizeof text, "assertion failed: %s", what);
    fail(here->run, file, int(line), text);
    leave(here->current, state::done);
    __builtin_trap();
}
}
