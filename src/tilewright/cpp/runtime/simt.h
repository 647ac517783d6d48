// Runs of SIMT kernels: what their parts share.
#pragma once
#include "runtime.h"

namespace tilewright {
constexpr unsigned stack_bytes = 256 << 10;
constexpr int coordinates_count = 12;

enum class state : unsigned char { ready, at_barrier, at_exchange, spinning, done };
// What is known of the workers of a launch, where threads wait in loops for what others write.
struct waiting {
    unsigned epoch;      // begins when something may have changed what they wait for
    unsigned confirmed;  // workers whose threads have all looked since, and wait
    unsigned workers;
    unsigned more;       // of them, those that take blocks which others wait for
    double since;        // when it began
    long window;         // of time, in which so many workers looked, and some did anything but wait
    unsigned in_window;
    bool moved;
    task* asked_by;      // what the launch is part of, if the program does not wait for it
    int held, given;     // processors that the launch has, and has given back while all of it waits
    bool stuck, told;    // all of it waits, and has for long
};
constexpr int spins = 6;  // the kind of a barrier where a thread lets others go on: `SPIN` of cpp/host/spins.py
// A word of 8 bytes for each lane of a warp, and one of 4: lanes that have parted may give one or the other. Shuffles may
// read words of lanes that there are not, and use none of them.
struct lane_words {
    unsigned long long before[32], words[32], after[32];
    unsigned before_halves[32], halves[32], after_halves[32];
};
constexpr int halves_behind_words = 640;  // bytes: `HALVES` of cpp/host/fission.py
static_assert(__builtin_offsetof(lane_words, halves) - __builtin_offsetof(lane_words, words) == halves_behind_words);
struct fiber {
    void* stack_pointer;
    unsigned char* stack;
    unsigned coordinates[coordinates_count];
    state now;
    int predicate, line;
    char const* file;
    unsigned mask;
    unsigned long long given;
    lane_words taken;
};
// How threads run: `Way` of cpp/host/simt.py.
enum class way : long { loops, fibers, warps, ranges };
// Runs a region of a kernel for the lanes `mask` of the threads from `from` on: the set of the barriers that they ended
// at, each a bit, of which 0 is the end of the kernel, and in `ended` the number of that of each lane.
using region = unsigned long long (*)(void** slots, unsigned const* coordinates, unsigned from, unsigned mask, void* given,
                            void const* taken, unsigned* masks, unsigned* ended, unsigned outcome, unsigned* sum);
// Runs the first `warps` whole warps from the region `at` on to a barrier of the block, or the end: how many got to the
// same one, whose place is in `state`. The next one has parted, or is elsewhere. -1 if they cannot be run so.
struct progress {
    unsigned sum, place;     // of predicates; of the barrier
    unsigned long long set;  // where lanes of the one that stopped ended, none if it is yet to run
    unsigned begin;          // where it and those behind it began
};
using together = int (*)(void** slots, unsigned const* coordinates, unsigned warps, unsigned at, unsigned outcome,
                         void** words, unsigned* masks, unsigned* ended, progress* state);
// The code of a kernel: its loop over the threads of a block, one thread; and, where warps go on for themselves, its
// regions, of which the first begins it and the others follow the barriers, of which `kinds` and so on say more: `masks`
// the lanes that wait there, -1 if each of them says so when it comes.
struct simt_code {
    void (*block)(void** slots, unsigned const* coordinates);
    void (*thread)(void** slots, unsigned const* coordinates);
    way how;
    region const* regions;
    int const* kinds;
    char const* const* files;
    int const* lines;
    long long const* masks;
    together all;
    char const* divisions;  // places of those that may be by zero, between which is " or "
    // Writes the addresses of the `guard_bytes` bytes before and behind this thread's variables in shared memory; nothing
    // where there are none.
    void (*guards)(unsigned char** found);
    unsigned const* width;  // of blocks, where the kernel has a constant for it, and 0
};
constexpr size_t guard_bytes = 64 << 10;  // `tw.guard` of cpp/host/simt.ll
struct span {
    size_t start, end;
    bool has(size_t address) const { return address >= start && address < end; }
};
// Who used a byte of shared memory last, of the threads of a block, which are counted from 1.
struct cell {
    unsigned block;  // the number of the block, among those of the worker; of another one nothing is known
    unsigned short writer, reader;  // several_readers of several warps, and more than `in_one_warp` of threads of one
    bool atomic;                    // how it was written
    unsigned written, read;         // barriers that the block had passed then,
    unsigned written_warp, read_warp;  // and the warp of the thread
};
struct shadow {
    span where;
    cell* cells;
};
struct host_variable {
    size_t start;
    unsigned bytes;
};
// What a worker knows of memory, where accesses are checked.
struct checks {
    list<shadow> shadows;       // of shared memory
    unsigned block, at[3];      // the block that runs
    unsigned barriers, warp_barriers[32];  // that it has passed, and its warps
    list<span> shared;  // its variables in shared memory
    span latest;        // the allocation that it used last, and as of how many changes of the heap
    unsigned char* written;  // which of its bytes are
    byte_users* users;       // and by whom they were used
    unsigned changes;
    unsigned char* elsewhere;  // where what is wrong does no harm
    size_t elsewhere_bytes;
};
struct launch {
    simt_code what;
    char const* kernel;
    size_t shared;  // bytes that the launch asked for
    void** slots;
    unsigned grid[3], block[3];
    unsigned long long next, count, chunk;  // blocks, or ranges: threads take several at a time
    unsigned long long all, ranges;  // threads along x, and how many ranges of `width` they are
    unsigned width;  // a power of two, so that no number of 32 bits wraps within a range; that of a block, or 1, where
    unsigned apart;  // blocks, each of this many ranges, are not as wide as the kernel has it
    int failed;
    char const* file;  // where, and what
    int line, column;
    bool asked;      // its kernel has asked about an access, as code that is checked does
    bool ordered;    // and done some by which threads of several blocks may wait for each other
    bool is_public;  // or the host may see what they do
    unsigned long long number;  // among launches
    unsigned at[6];  // of the block, behind those of no thread
    char message[256];
    waiting waits;
    struct {
        bool misaligned;  // or no address at all
        int signal;  // 0 if there was none
        size_t counter, address;
        unsigned block[3];
        char const* outside;  // of what the address is, just; null where that is not known
    } fault;
};
// The threads of a warp: all at one place, or each at its own. A place is a region that is to run, or a barrier.
struct warp {
    unsigned lanes;
    bool together;
    state now;
    unsigned at;
    state each[32];
    unsigned places[32];
    unsigned masks[32], ended[32];
    alignas(64) lane_words buffers[2];  // what lanes have given, and what they get, in turns
    lane_words *given, *taken;
};
struct worker {
    launch* run;
    fiber* fibers;
    fiber* current;
    void* stack_pointer;
    unsigned threads;
    int outcome;  // of the latest barrier
    unsigned long long number, end;  // of the block that runs, and of those that the worker has taken
    unsigned char *memory, *memory_end;  // of the fibers
    span shared_guards[2], stack_guards[2];  // whole pages which nobody may touch
    checks checked;
    warp* warps;
    struct {
        unsigned moves;          // into loops that wait, and past barriers and exchanges, in a round
        unsigned lanes, before;  // that wait after it, and after the round before
        unsigned epoch, confirmed;  // at its beginning; the one that counts this worker
        bool only, stands;  // whether they do nothing else, or at least nothing that they go on by
        long window;        // the latest one that counts this worker
        char const* file;  // where one of them does
        int line;
    } spin;
    void* frames;  // of blocks that are split at their barriers
    size_t frame_bytes;
};
extern thread_local worker* here;

constexpr int column_shift = 20;  // what tells a barrier's line has its column above these bits: `TW_PLACE` of simt.h

void leave(fiber* self, state now);
void guard_shared(worker* mine);
void expect_faults();
cudaError_t report_fault(launch& run);
void fail(launch* run, char const* file, int line, char const* what);
extern char const others_ended[], others_elsewhere[], lanes_missing[];
void run_by_warps(worker* mine, unsigned const* coordinates);
// Rounds in which all threads of a block run that can, where some of them spin: what each of these does, and whether
// another round is to follow, which is not where nothing can happen any more.
void begin_round(worker* mine);
void spin(worker* mine, char const* file, int line);
bool end_round(worker* mine, unsigned round);
void work(launch* run);          // takes blocks, until there are none
void work_counted(launch* run);  // which workers of a launch do
void wait_for_more(launch* run);
void run_apart(launch* run);

// Findings of a launch, for the sanitizer.
void note(launch const* run, char const* category, char const* file, int line, int column, unsigned const* coordinates,
          char const* message, bool of_block = false);
cudaError_t report_findings();
int place_in_host_code(char* file, int room);  // its line; that of the program's own code which runs
int place_of(void* const* found, int count, char* file, int room);  // the same, of the callers' addresses
void forget(checks& what);
void passed_barrier(worker* mine);
void passed_by_warp(worker* mine, unsigned warp);

}  // namespace tilewright
