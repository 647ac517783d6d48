// The CUDA runtime of C++ programs on a CPU, without the C++ standard library: what its parts share.
//
// Memory of the device is memory of the host whose bounds are known. What a stream is asked to do ends before the call
// returns, unless it waits for what the program does later (`order.cpp`), or the stream is being captured: then it becomes a
// node of a graph.
#pragma once
#include "cuda_runtime.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace tilewright {

// An array that grows, of things that may be moved as bytes.
template <typename T>
struct list {
    T* items = nullptr;
    size_t count = 0, room = 0;
    T* begin() const { return items; }
    T* end() const { return items + count; }
    T& operator[](size_t i) const { return items[i]; }
    T& insert(size_t at, T const& value) {
        if (count == room) {
            room = room ? 2 * room : 8;
            items = (T*)realloc((void*)items, room * sizeof(T));
            if (!items) abort();
        }
        memmove((void*)(items + at + 1), (void const*)(items + at), (count - at) * sizeof(T));
        memcpy((void*)(items + at), (void const*)&value, sizeof(T));
        ++count;
        return items[at];
    }
    T& add(T const& value) { return insert(count, value); }
    void remove(size_t at) {
        memmove((void*)(items + at), (void const*)(items + at + 1), (count - at - 1) * sizeof(T));
        --count;
    }
    size_t find(T const& value) const {
        size_t i = 0;
        while (i < count && memcmp((void const*)(items + i), (void const*)&value, sizeof(T)) != 0) ++i;
        return i;
    }
    bool holds(T const& value) const { return find(value) < count; }
    bool discard(T const& value) {
        size_t at = find(value);
        if (at == count) return false;
        remove(at);
        return true;
    }
    void clear() {
        free((void*)items);
        items = nullptr;
        count = room = 0;
    }
};

// Everything that threads of the program share is read and changed under one lock.
struct locked {
    locked();
    ~locked();
};
void keep_lock_through_forks();

// What a kernel gets apart: an argument, or a part of one. Its bytes, and where it is: the position of the argument, and
// the first byte in it.
struct part {
    unsigned size, argument, offset;
};
constexpr unsigned most_parameters = 1024;
// A kernel, as a file of the program describes it.
constexpr int max_threads = 1024;  // of a block
struct kernel {
    void const* stub;
    char const* key;  // other files may have a kernel with the same symbol
    char const* symbol;
    char const* name;
    part const* parts;
    unsigned parameters, simt;  // how many parts, and whether it is no tile code
    unsigned bound, shared;  // the most threads of a block, and the bytes of its shared variables
    unsigned waits;  // whether it has loops that wait for what others write
    void* code;  // of SIMT kernels: see simt.cpp
};
// The addresses of the parts of a kernel's arguments, in `room` unless they are `arguments` themselves.
void** parts_of(kernel const& what, void** arguments, void** room);
kernel const* find_kernel(void const* stub);  // by its address in the program, or its handle
bool is_loaded(void const* handle);           // is a kernel of a module

struct configuration {
    unsigned grid[3], block[3];
    size_t shared;
    cudaStream_t stream;
};
cudaError_t check(configuration const& wanted);
constexpr size_t shared_memory = 48 << 10;  // of a block, unless a program asks for more
size_t shared_room(kernel const& what);  // the bytes of shared memory that a launch may ask for
// What is wrong with a launch, which is said. `slots` has the addresses of the arguments.
cudaError_t refused_launch(kernel const& what, configuration const& how, void** slots);
// Runs all blocks now.
cudaError_t run(kernel const& what, configuration const& how, void** slots);
cudaError_t launch_in_order(kernel const& what, configuration const& how, void** slots);  // of its stream
cudaError_t run_simt(kernel const& what, configuration const& how, void** slots);
cudaError_t run_tile(kernel const& what, configuration const& how, void** slots);
int worker_count();
double now();  // seconds
extern char const* running_tile;  // the tile kernel that was launched last, while it runs
// While it is there, the thread counts as one that works.
struct launching {
    launching();
    ~launching();
};

// The outcome of a function of the runtime; after a failure of the device every outcome is that failure.
cudaError_t report(cudaError_t error);
cudaError_t broken();
void say(char const* format, ...) __attribute__((format(printf, 1, 2)));
void note_in_host_code(char const* category, char const* message);  // for the sanitizer
constexpr int frames = 24;  // of callers of which it is known where they are
void note_at_frames(char const* category, char const* message, void* const* found, int count);
extern int (*at_exit)(int status);  // of a program that Python runs: gets the status of the process, and says another
void note_refusal(char const* message);  // the same, unless the program asks for the error of a launch before it ends
int place_of(void* const* found, int count, char* file, int room);  // the line of the program's own code among callers
void refusals_are_known();
void report_refusals();
void say_of(kernel const& what, char const* told);  // with the place of a SIMT kernel

// Memory.
cudaError_t allocate(void** address, size_t size, cudaMemoryType kind);
cudaError_t copy(void* target, void const* source, size_t size, cudaMemcpyKind kind);
cudaError_t copy3d(cudaMemcpy3DParms const& how);
cudaError_t fill(void* address, unsigned value, unsigned element, size_t count);
bool holds(void const* address, size_t size);
bool checking();
// Under the sanitizer: which bytes of the allocation that `address` is in somebody has written, null where that is not
// known, as after kernels that do not say what they write.
unsigned char* written_bytes(void const* address);
void trust_memory();
// And the threads of launches that have written and read each byte last; null where that is not kept, of much memory.
struct byte_users {
    unsigned long long writer, reader;
};
byte_users* users_of(void const* address);
bool bounds_of(void const* address, size_t* start, size_t* end);  // of the allocation that it is in, or at the end of
void* heap(size_t size);  // memory of the device that a kernel asks for, and gives back
bool leave_heap(void* address);
void forget_memory();
// Memory of graphs: its address is known before a launch allocates it. Each node that names it holds it.
void* reserve(size_t size);
void hold_reserved(void const* address, bool more);
cudaError_t allocate_reserved(void const* address, bool again);  // by a launch; `again` where it may be there already
cudaError_t release(void* address, bool registered);

// Attributes of a stream or of a kernel of a graph, which change nothing here; a program gets what it has set.
struct attributes {
    cudaLaunchAttributeValue values[cudaLaunchAttributePreferredSharedMemoryCarveout + 1];
    cudaError_t get(unsigned id, cudaLaunchAttributeValue* value) const;
    cudaError_t set(unsigned id, cudaLaunchAttributeValue const* value);
};

// Work of a graph. A node runs after those that it depends on.
struct node {
    cudaGraphNodeType type;
    list<node*> after;
    kernel const* what;
    configuration how;
    void** slots;  // a copy of the arguments
    cudaMemcpy3DParms copy;
    cudaMemsetParams fill;
    cudaHostNodeParams host;
    cudaGraph_t child;
    cudaEvent_t event;
    cudaMemAllocNodeParams memory;  // `dptr` is what a node allocates or frees
    cudaConditionalNodeParams condition;  // `phGraph_out` are its graphs
    attributes about;
    bool disabled;
    bool again;  // allocations of a launch before may be there still
};
cudaError_t run(node const& what, bool again);
void forget(node const& what);  // that is of no graph
// The graph into which `stream` is captured, or null.
cudaGraph_t capturing(cudaStream_t stream);
cudaError_t capture(cudaStream_t stream, node const& what);
cudaGraphNode_t added(cudaGraph_t graph, node const& what);
bool has(cudaGraph_t graph, cudaGraphNode_t const* nodes, size_t count);  // is a graph, with these nodes
node kernel_node(kernel const* what, configuration const& how, void** slots);
cudaError_t on(cudaStream_t stream);  // an error where there is no such stream

// The order of work. Streams have lanes; what one is asked to do has a number in it.
unsigned new_lane(bool blocking);
void leave_lane(unsigned number);
unsigned lane_of(cudaStream_t stream);  // 0 for the default streams
struct turn {
    unsigned lane;
    unsigned long long count;
};
// Whether all before it has ended; if not, or where it `waits`, what that is.
bool begin_turn(cudaStream_t stream, turn* number, bool waits, list<unsigned long long>* after);
void end_turn(turn number);
cudaError_t do_later(turn number, list<unsigned long long> const& after, node const& what, bool ready);  // takes `after`
cudaError_t join(cudaStream_t stream, bool ask);  // waits for all work of a stream; `ask`: says cudaErrorNotReady instead
cudaError_t join(list<unsigned long long> const& marked, bool ask);
cudaError_t join_all();
bool is_joined(turn number);
bool mark(cudaStream_t stream, list<unsigned long long>* made);  // what has been asked of a stream: whether it has ended
void wait_for(cudaStream_t stream, list<unsigned long long> const& marked);
struct task;
task* task_here();  // that this thread does, if it is one of the runtime's
int place_of_task(char* file, int room);  // its line in the program, which asked for it; 0 where it is not known
void is_idle(task* what);  // it waits for others
void keep_threads(int count);  // that a launch had given back

// Under the sanitizer: what work has written where the host reads it, until the program has waited for it. Work `by_host`
// may use that, but no memory of the device.
void begin_results(bool by_host);
void end_results(turn number, bool by_host);
void note_result(void const* start, size_t size, char const* by);
void results_are_joined();
void forget_results(size_t start, size_t end);  // of memory that is freed
void report_host_uses();
bool is_watched_use(void const* address, void const* counter, bool writes);  // a fault: whether the access may go on
struct pages {
    size_t start, end;
    bool of_device;  // or the host may use them, too
    bool* closed;    // whether nobody may use them now; there as long as the lock is held
};
list<pages> watched_pages();
void close_pages();  // that nobody may use now, and opens the others
// What a kernel changes of that memory while it is there.
struct kernel_results {
    kernel_results(char const* name, bool wanted);
    ~kernel_results();
    char const* name;
    list<pages> all{};
    list<unsigned char*> before{};
};
void results_are_public();  // the host may look at what the kernel that runs writes meanwhile
template <typename F>
cudaError_t done_in_turn(turn number, bool by_host, F now) {
    if (!checking()) return now();
    begin_results(by_host);
    cudaError_t const error = now();
    end_results(number, by_host);
    return error;
}
// Does what `now` does once all before it in its stream has ended. What `waits` may end after the call has returned, and
// what is not done at once is the node that `later` makes.
template <typename Now, typename Later>
cudaError_t in_order(cudaStream_t stream, bool waits, Now now, Later later) {
    turn number;
    list<unsigned long long> after{};
    bool const ready = begin_turn(stream, &number, waits, &after);
    if (!ready || waits) return do_later(number, after, later(), ready);
    cudaError_t const error = done_in_turn(number, false, now);
    end_turn(number);
    return error;
}

}  // namespace tilewright

extern "C" int __tw_take_threads(int wanted);
extern "C" void __tw_give_threads(int count);
// Of a launch, by an address that is its own, whose blocks may wait for what others write: that the calling thread begins to
// run them, or no longer does; and whether all of them wait, which is for ever where this returns that.
extern "C" void __tw_takes_part(void const* launch, int begins);
extern "C" int __tw_is_stuck(void const* launch, int stuck);

using tilewright::report;
