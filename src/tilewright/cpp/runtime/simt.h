// Runs of SIMT kernels: what their parts share.
#pragma once
#include "runtime.h"

namespace tilewright {
constexpr unsigned stack_bytes = 256 << 10;
constexpr int coordinates_count = 12;

enum class state : unsigned char { ready, at_barrier, at_exchange, done };
struct fiber {
    void* stack_pointer;
    unsigned char* stack;
    unsigned coordinates[coordinates_count];
    state now;
    int predicate, line;
    char const* file;
    unsigned mask;
    unsigned long long given, taken[32];
};
// The code of a kernel: its loop over the threads of a block, one thread, and whether its threads wait for each other.
struct simt_code {
    void (*block)(void** slots, unsigned const* coordinates);
    void (*thread)(void** slots, unsigned const* coordinates);
    long waits;
};
struct span {
    size_t start, end;
};
// What a worker knows of memory, where accesses are checked.
struct checks {
    list<span> shared;  // its variables in shared memory
    span latest;        // the allocation that it used last
    span stack;
    unsigned char* elsewhere;  // where what is wrong does no harm
    size_t elsewhere_bytes;
};
struct launch {
    simt_code what;
    char const* kernel;
    size_t shared;  // bytes that the launch asked for
    void** slots;
    unsigned grid[3], block[3];
    bool waits;
    unsigned long long next, count, chunk;  // blocks: threads take several at a time
    int failed;
    char const* file;  // where, and what
    int line;
    char message[256];
};
struct worker {
    launch* run;
    fiber* fibers;
    fiber* current;
    void* stack_pointer;
    unsigned threads;
    int outcome;  // of the latest barrier
    unsigned char *memory, *memory_end;  // of the fibers
    checks checked;
    void* frames;  // of blocks that are split at their barriers
    size_t frame_bytes;
};
extern thread_local worker* here;

// Findings of a launch, for the sanitizer.
bool checking();
void note(launch const* run, char const* category, char const* file, int line, int column, unsigned const* coordinates,
          char const* message);
cudaError_t report_findings();
void forget(checks& what);

}  // namespace tilewright
